import { expect, it } from 'vitest'
import { warmUp } from '../../../packages/bench/recovery/warm-up.ts'

it('a new engine of an overloaded fleet neither starves nor gets more than it can serve', () => {
  const { share60s, shareLater, all, own, others } = warmUp({ slowStart: 1, seed: 1, perS: 16 })
  expect(share60s).toBeGreaterThan(0.15)
  expect(shareLater).toBeGreaterThan(0.18)
  expect(shareLater).toBeLessThan(0.32)
  // The same requests, with and without it. Of one seed, the new engine has some hundred.
  for (const { meanMs, meanWithoutMs } of [all, own, others]) expect(meanMs).toBeLessThan(meanWithoutMs)
  expect(others.p99Ms).toBeLessThan(others.p99WithoutMs)
}, 240_000)
