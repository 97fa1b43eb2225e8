import { expect, it } from 'vitest'
import { warmUp } from '../../../packages/bench/recovery/warm-up.ts'

// Of one seed, the 99th percentile of the new engine is that of some hundred requests.
it('a new engine of an overloaded fleet neither starves nor gets more than it can serve', () => {
  const { share60s, shareLater, p99Ms, newP99Ms } = warmUp({ slowStart: 1, seed: 1, perS: 16 })
  expect(share60s).toBeGreaterThan(0.15)
  expect(shareLater).toBeGreaterThan(0.18)
  expect(shareLater).toBeLessThan(0.32)
  expect(newP99Ms).toBeLessThan(2 * p99Ms)
})
