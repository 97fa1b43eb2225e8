import { expect, it } from 'vitest'
import { warmUp } from '../../../packages/bench/recovery/warm-up.ts'

it('a new engine of an overloaded fleet gets its share within a minute, and is no later than the others', () => {
  const { share60s, shareLater, p99Ms, newP99Ms } = warmUp({ slowStart: 1, seed: 1, perS: 16 })
  expect(share60s).toBeGreaterThan(0.2)
  expect(shareLater).toBeGreaterThan(0.22)
  expect(shareLater).toBeLessThan(0.3)
  expect(newP99Ms).toBeLessThan(1.2 * p99Ms)
})
