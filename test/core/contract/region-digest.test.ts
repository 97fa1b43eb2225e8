import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { estimateTtft } from '../../../src/core/contract/ttft-estimate.ts'
import { regionDigestOf, type EngineEstimate } from '../../../src/core/contract/region-digest.ts'

const facts = { cluster: 'c', pool: 'm', configVersion: 1, requests: 0, prefixes: '' }
const costModel = (perTokenS: number) => ({ fixedS: 0.01, perTokenS, perPairS: 0 })
const engineEstimate = (changes: Partial<EngineEstimate> = {}): EngineEstimate => ({
  waitS: 0,
  queued: 0,
  costModel: costModel(1e-4),
  confidence: 1,
  ...changes,
})

describe('regionDigestOf', () => {
  it('regionDigestOf has no estimates if no engine accepts prompts', () => {
    const digest = regionDigestOf([], facts)
    expect(digest).toMatchObject({ engines: 0, queued: 0, confidence: 0, soonest: null, usual: null })
    expect(estimateTtft(digest, 1000, 0)).toBeNull()
  })

  it('regionDigestOf reports the engine with the shortest wait and the median engine', () => {
    const digest = regionDigestOf(
      [engineEstimate({ waitS: 3, queued: 2 }), engineEstimate({ waitS: 1, queued: 1 }), engineEstimate()],
      facts,
    )
    expect(digest).toMatchObject({ engines: 3, queued: 1, soonest: { waitS: 0 }, usual: { waitS: 1 } })
  })

  it('regionDigestOf prefers a fast engine with a queue to an idle slow engine', () => {
    const digest = regionDigestOf(
      [engineEstimate({ costModel: costModel(1e-3) }), engineEstimate({ waitS: 0.2 })],
      facts,
    )
    expect(digest.soonest?.waitS).toBe(0.2)
  })

  it('regionDigestOf does not report an engine with low confidence as the fastest', () => {
    const digest = regionDigestOf(
      [
        engineEstimate({ costModel: costModel(1e-6), confidence: 0.1 }),
        ...Array.from({ length: 4 }, () => engineEstimate()),
      ],
      facts,
    )
    expect(digest.soonest!.costModel.perTokenS).toBeGreaterThan(5e-5)
  })

  it('regionDigestOf reports the fastest engine if its confidence is high', () => {
    expect(
      regionDigestOf(
        [engineEstimate({ costModel: costModel(1e-6) }), ...Array.from({ length: 4 }, () => engineEstimate())],
        facts,
      ).soonest!.costModel.perTokenS,
    ).toBeCloseTo(1e-6, 8)
  })
})

describe('estimateTtft', () => {
  const idle = regionDigestOf([engineEstimate(), engineEstimate()], facts)

  it('estimateTtft charges uncached tokens, at least one', () => {
    expect(estimateTtft(idle, 1000, 600)).toMatchObject({
      prefillS: expect.closeTo(0.01 + 0.04),
      coldS: expect.closeTo(0.11),
      cachedTokens: 600,
    })
    expect(estimateTtft(idle, 1000, 5000)?.cachedTokens).toBe(999)
  })

  it('estimateTtft assumes a cold prompt if the engines with the cache might all be busy', () => {
    const busy = regionDigestOf([engineEstimate({ waitS: 9 }), engineEstimate({ waitS: 9 }), engineEstimate()], facts)
    expect(estimateTtft(busy, 1000, 900)).toMatchObject({ waitS: 0, cachedTokens: 0 })
  })

  it('estimateTtft is never higher because of cached tokens', () => {
    const some = (max: number) => fc.integer({ min: 0, max: 1000 }).map((part) => (part * max) / 1000)
    const any = fc.record({
      waitS: some(100),
      queued: fc.nat(50),
      costModel: fc.record({ fixedS: some(1), perTokenS: some(1e-2), perPairS: some(1e-6) }),
      confidence: some(1),
    })
    fc.assert(
      fc.property(
        fc.array(any, { minLength: 1, maxLength: 8 }),
        fc.nat(100_000),
        fc.nat(100_000),
        (engineEstimates, tokens, cached) => {
          const digest = regionDigestOf(engineEstimates, facts)
          const [cold, warm] = [estimateTtft(digest, tokens, 0)!, estimateTtft(digest, tokens, cached)!]
          for (const estimate of [cold, warm])
            expect(
              [estimate.waitS, estimate.prefillS, estimate.coldS].every((one) => one >= 0 && Number.isFinite(one)),
            ).toBe(true)
          expect(warm.waitS + warm.prefillS).toBeLessThanOrEqual(cold.waitS + cold.prefillS)
        },
      ),
    )
  })
})
