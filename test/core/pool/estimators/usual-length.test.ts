import { expect, it } from 'vitest'
import { UsualLength } from '../../../../src/core/pool/estimators/usual-length.ts'

it('UsualLength is the mean over time: a length counts for as long as it lasts', () => {
  const usual = new UsualLength()
  for (let minute = 0; minute < 30; minute++) {
    usual.set(4, minute * 60_000)
    usual.set(0, minute * 60_000 + 15_000)
  }
  expect(Math.abs(usual.mean(30 * 60_000) - 1)).toBeLessThan(0.3)
})

it('UsualLength halves the weight of the past in a minute', () => {
  const usual = new UsualLength()
  usual.set(8, 0)
  expect(usual.mean(60_000)).toBeCloseTo(4, 12)
  usual.set(0, 60_000)
  expect(usual.mean(120_000)).toBeCloseTo(2, 12)
})

it('UsualLength is not changed by reading it', () => {
  const usual = new UsualLength()
  usual.set(8, 0)
  usual.mean(500_000)
  expect(usual.mean(60_000)).toBeCloseTo(4, 12)
})
