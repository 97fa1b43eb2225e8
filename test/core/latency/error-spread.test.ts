import { expect, it } from 'vitest'
import { ErrorSpread } from '../../../src/core/latency/error-spread.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'

it('nine of ten first tokens come within the predicted time and its spread', () => {
  const random = chance(3)
  const spread = new ErrorSpread()
  let late = 0
  for (let at = 0; at < 4_000; at++) {
    const measuredS = 0.8 + 0.5 * random()
    if (at >= 1_000 && measuredS > spread.factor) late += 1
    spread.learn(1, measuredS)
  }
  expect(late / 3_000).toBeGreaterThan(0.07)
  expect(late / 3_000).toBeLessThan(0.13)
})

it('the spread is between 1 and 1.5, whatever is measured', () => {
  const early = new ErrorSpread()
  const late = new ErrorSpread()
  for (let at = 0; at < 500; at++) {
    early.learn(1, 0.1)
    late.learn(1, 100)
    late.learn(NaN, 1)
    late.learn(0, 1)
  }
  expect(early.factor).toBe(1)
  expect(late.factor).toBe(1.5)
})
