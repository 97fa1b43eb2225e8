import { describe, expect, it } from 'vitest'
import { engineRate, type EnginePace } from '../../../src/core/capacity/engine-rate.ts'
import type { RequestMix } from '../../../src/core/capacity/request-mix.ts'

const PACE: EnginePace = {
  step: { baseS: 0.01, perRequestS: 0.0005, perBlockS: 0.00001 },
  places: Infinity,
  blocks: Infinity,
}
const MIX: RequestMix = { prefillS: 0.1, prefillS2: 0.02, slackS: Infinity, outputTokens: 200, blocksPerSequence: 50 }
const LONG_PROMPTS: RequestMix = { ...MIX, prefillS: 0.4, prefillS2: 0.18, outputTokens: 100 }
/** Prefill, and for each output token a sequence's part of a step. */
const workS = ({ prefillS, outputTokens }: RequestMix): number => prefillS + outputTokens * (0.0005 + 50 * 0.00001)
const WORK_S = workS(MIX)

describe('the rate of an engine', () => {
  it('without limits, an engine works 95 % of its time', () => {
    expect(engineRate(MIX, PACE, Infinity)).toBeCloseTo(0.95 / WORK_S)
  })

  it.each([
    ['short', MIX],
    ['long', LONG_PROMPTS],
  ])('an engine has the objective of the time between tokens at its rate, with %s prompts', (_length, mix) => {
    const rate = engineRate(mix, PACE, 0.04)
    const itlS = PACE.step.baseS / (1 - rate * workS(mix))
    const meanWaitS = (rate * mix.prefillS2) / 2 / (1 - rate * mix.prefillS)
    // Its own prefill delays the running streams, and so do those that are queued: of 99 of 100 streams at most so long.
    const delayS = mix.prefillS + Math.log(100) * meanWaitS
    expect(itlS + delayS / mix.outputTokens).toBeCloseTo(0.04, 3)
  })

  it.each([
    ['places', { places: 8 }, 8],
    ['KV blocks', { blocks: 400 }, 8],
  ])('an engine runs as many sequences as it has %s for', (_limit, changes, running) => {
    const rate = engineRate(MIX, { ...PACE, ...changes }, Infinity)
    const itlS = PACE.step.baseS / (1 - rate * WORK_S)
    expect(rate * MIX.outputTokens * itlS).toBeCloseTo(running)
  })

  it('99 of 100 waits for prefills fit into the objective of the first token', () => {
    const prefills = { ...MIX, slackS: 0.5, outputTokens: 0, blocksPerSequence: 0 }
    const rate = engineRate(prefills, PACE, 0.04)
    const meanWaitS = (rate * MIX.prefillS2) / 2 / (1 - rate * MIX.prefillS)
    expect(meanWaitS * Math.log(100)).toBeCloseTo(0.5)
  })

  it('an engine whose step alone misses the objective serves one request after the other', () => {
    expect(engineRate(MIX, PACE, 0.005)).toBeCloseTo(1 / (WORK_S + 200 * PACE.step.baseS))
  })

  it('requests without measurable work have a finite rate', () => {
    const mix = { prefillS: 0, prefillS2: 0, slackS: Infinity, outputTokens: 0, blocksPerSequence: 0 }
    expect(engineRate(mix, PACE, 0.04)).toBeLessThan(100_000)
  })
})
