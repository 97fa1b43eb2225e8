import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type PrefillCostModel, prefillSeconds } from '../../../../src/core/latency/prefill-cost-model.ts'
import { extrapolated } from '../../../../src/core/pool/condition/extrapolation.ts'

const FLAT: PrefillCostModel = { fixedS: 0.34, perTokenS: 0.000_008, perPairS: 0 }
const uncached = (promptTokens: number) => ({ promptTokens, cachedTokens: 0 })
const msOf = (costModel: PrefillCostModel, promptTokens: number): number =>
  1000 * prefillSeconds(costModel, uncached(promptTokens))

/** Longest time that an engine with this pace may take. */
function limitMs(costModel: PrefillCostModel, promptTokens: number, longestTokens: number): number {
  const pace = { costModel, longestTokens }
  const { prefillMs, beyondMs } = extrapolated(uncached(promptTokens), msOf(costModel, promptTokens), pace)
  return prefillMs + beyondMs
}

describe('the extrapolated prefill of a prompt', () => {
  it('the extrapolated prefill is the prediction for prompts of a known length, or without samples', () => {
    for (const [promptTokens, longestTokens] of [
      [4_000, 4_000],
      [100, 4_000],
      [4_000, 0],
    ] as const) {
      const prefill = extrapolated(uncached(promptTokens), 123, { costModel: FLAT, longestTokens })
      expect(prefill).toEqual({ prefillMs: 123, beyondMs: 0 })
    }
  })

  it('the extrapolated prefill covers all engines that take as long as predicted for the longest known prompt', () => {
    const tokens = fc.integer({ min: 100, max: 100_000 })
    const costs = fc.record({
      fixedS: fc.double({ min: 0, max: 1, noNaN: true }),
      perTokenS: fc.double({ min: 0, max: 1e-3, noNaN: true }),
      perPairS: fc.double({ min: 0, max: 1e-8, noNaN: true }),
    })
    fc.assert(
      fc.property(tokens, tokens, costs, costs, (longest, more, actual, shape) => {
        const factor = msOf(actual, longest) / Math.max(1e-9, msOf(shape, longest))
        const fitted = {
          fixedS: factor * shape.fixedS,
          perTokenS: factor * shape.perTokenS,
          perPairS: factor * shape.perPairS,
        }
        // Products of smaller times are no exact numbers.
        fc.pre(Math.min(msOf(actual, longest), msOf(shape, longest)) > 1e-6)
        const actualMs = msOf(actual, longest + more)
        expect(limitMs(fitted, longest + more, longest)).toBeGreaterThanOrEqual(0.999_999 * actualMs)
      }),
    )
  })

  it('the extrapolated prefill of a prompt 16 times the longest takes 16 times as long, if short ones all take the same', () => {
    const pace = { costModel: FLAT, longestTokens: 4_500 }
    const { prefillMs } = extrapolated(uncached(72_000), msOf(FLAT, 72_000), pace)
    expect(prefillMs).toBeCloseTo(16 * msOf(FLAT, 4_500))
  })

  it('the extrapolated prefill of a long prompt that is cached but for a few tokens is the prediction', () => {
    const pace = { costModel: FLAT, longestTokens: 4_500 }
    expect(extrapolated({ promptTokens: 72_000, cachedTokens: 71_900 }, 200, pace).prefillMs).toBe(200)
  })
})
