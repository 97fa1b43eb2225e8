import { expect, it } from 'vitest'
import { warmUp } from '../../../packages/bench/recovery/warm-up.ts'

it('a new engine of an overloaded fleet gets its share within a minute, and is about as fast as the others', () => {
  const { share60s, shareLater, p99Ms, newP99Ms } = warmUp({ slowStart: 1, seed: 1, perS: 16 })
  expect(share60s).toBeGreaterThan(0.2)
  expect(shareLater).toBeGreaterThan(0.22)
  expect(shareLater).toBeLessThan(0.3)
  // Seeds 1 to 3 give 1.33, 1.13 and 1.23.
  expect(newP99Ms).toBeLessThan(1.4 * p99Ms)
})
