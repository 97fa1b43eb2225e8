import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { type PrefillCostModel, prefillSeconds } from '../../../../src/core/latency/prefill-cost-model.ts'
import { extrapolation } from '../../../../src/core/pool/condition/extrapolation.ts'

const secondsOf = (costModel: PrefillCostModel, promptTokens: number): number =>
  prefillSeconds(costModel, { promptTokens, cachedTokens: 0 })

it('the extrapolation is no more than the prediction for prompts of a known length, or without samples', () => {
  expect(extrapolation(4_000, 4_000)).toBe(1)
  expect(extrapolation(100, 4_000)).toBe(1)
  expect(extrapolation(4_000, 0)).toBe(1)
})

it('covers an engine whose time is all attention, if the prediction is linear and right for the longest known prompt', () => {
  const tokens = fc.integer({ min: 100, max: 100_000 })
  fc.assert(
    fc.property(tokens, tokens, (longest, more) => {
      const actual = { fixedS: 0, perTokenS: 0, perPairS: 1e-8 }
      const linear = { fixedS: 0, perTokenS: secondsOf(actual, longest) / longest, perPairS: 0 }
      const limitS = secondsOf(linear, longest + more) * extrapolation(longest + more, longest)
      expect(limitS).toBeGreaterThanOrEqual(0.999_999 * secondsOf(actual, longest + more))
    }),
  )
})
