import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { medianOf } from '../../../src/core/latency/robust-fit.ts'
import { PrefillFitter } from '../../../src/core/latency/prefill-fitter.ts'
import {
  type PrefillCostModel,
  newTokens,
  attentionPairs,
  prefillSeconds,
  type PromptSize,
  queueSeconds,
} from '../../../src/core/latency/prefill-cost-model.ts'
import { profile } from '../../../src/core/latency/profiles.ts'

/** Times of vLLM 0.32 with a float32 model on one CPU thread: prompt tokens, cached tokens, milliseconds. */
const MEASURED: readonly (readonly [number, number, number])[] = [
  [256, 0, 426],
  [256, 0, 292],
  [1024, 0, 1277],
  [1024, 0, 1258],
  [4096, 0, 7824],
  [4096, 0, 7732],
  [8192, 0, 22_861],
  [8192, 0, 24_322],
  [256, 224, 88],
  [256, 224, 58],
  [1024, 992, 86],
  [1024, 992, 66],
  [4096, 4064, 153],
  [4096, 4064, 122],
  [8192, 8160, 206],
  [8192, 8160, 232],
  [4352, 4096, 738],
  [5120, 4096, 3036],
  [8192, 4096, 17_911],
]
const FITTED: PrefillCostModel = { fixedS: 0.038, perTokenS: 0.98e-3, perPairS: 4.75e-7 }
const gpu = profile('h100-8b')!

const median = (values: readonly number[]): number => medianOf(Float64Array.from(values), values.length)
const took = (size: PromptSize, seconds: number, at: number) => ({
  newTokens: newTokens(size),
  pairs: attentionPairs(size),
  seconds,
  at,
})
const errorOf = (costModel: PrefillCostModel, size: PromptSize, seconds: number): number =>
  Math.abs(prefillSeconds(costModel, size) / seconds - 1)

/** Repeatable random numbers, uniform in [0, 1). */
function chance(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Prompts of 64 to 8,192 tokens, half of them partly cached, with 8 % noise; every twentieth time is off by 10x. */
function afterSixtyAnswers(random: () => number): PrefillFitter {
  const learner = new PrefillFitter(gpu)
  for (let at = 0; at < 60; at++) {
    const promptTokens = Math.round(64 * 2 ** (random() * 7))
    const size = { promptTokens, cachedTokens: random() < 0.5 ? 0 : Math.floor(promptTokens * random()) }
    const noise = 1 + (random() - 0.5) * 0.16
    const wild = at % 20 === 7 ? (random() < 0.5 ? 10 : 0.1) : 1
    learner.learn(took(size, prefillSeconds(FITTED, size) * noise * wild, at * 1000))
  }
  return learner
}

describe('PrefillFitter', () => {
  it('PrefillFitter fits an engine 100 times slower than its profile in 60 responses with 5 % outliers, 198 of 200 times', () => {
    const histories = Array.from({ length: 200 }, (_, seed) => {
      const learner = afterSixtyAnswers(chance(seed * 7919))
      const errors = MEASURED.map(([promptTokens, cachedTokens]) => {
        const size = { promptTokens, cachedTokens }
        return errorOf(learner.costModel, size, prefillSeconds(FITTED, size))
      })
      return { median: median(errors), worst: Math.max(...errors), confidence: learner.confidence }
    })
    expect(histories.filter((one) => one.median <= 0.1).length).toBeGreaterThanOrEqual(198)
    expect(Math.max(...histories.map((one) => one.median))).toBeLessThan(0.2)
    expect(Math.max(...histories.map(({ worst }) => worst))).toBeLessThan(0.5)
    expect(Math.min(...histories.map(({ confidence }) => confidence))).toBeGreaterThan(0.6)
  })

  it('PrefillFitter fits measured prefills above half a second with a median error of 10 % after one sample each', () => {
    const learner = new PrefillFitter(gpu)
    MEASURED.forEach(([promptTokens, cachedTokens, ms], at) =>
      learner.learn(took({ promptTokens, cachedTokens }, ms / 1000, at)),
    )
    const errors = MEASURED.filter(([, , ms]) => ms > 500).map(([promptTokens, cachedTokens, ms]) =>
      errorOf(learner.costModel, { promptTokens, cachedTokens }, ms / 1000),
    )
    expect(median(errors)).toBeLessThanOrEqual(0.1)
  })

  it('PrefillFitter scales the prior to the first response, also for sizes without samples', () => {
    const learner = new PrefillFitter(gpu)
    const seen = { promptTokens: 2000, cachedTokens: 0 }
    learner.learn(took(seen, 40 * prefillSeconds(gpu, seen), 0))
    const long = { promptTokens: 50_000, cachedTokens: 0 }
    expect(prefillSeconds(learner.costModel, long) / prefillSeconds(gpu, long)).toBeCloseTo(40, 0)
  })

  it('PrefillFitter keeps its fit for long prompts during many short ones', () => {
    const learner = new PrefillFitter(gpu)
    const long = { promptTokens: 30_000, cachedTokens: 0 }
    for (let at = 0; at < 10; at++) learner.learn(took(long, prefillSeconds(FITTED, long), at))
    const short = { promptTokens: 100, cachedTokens: 0 }
    for (let at = 10; at < 5000; at++) learner.learn(took(short, prefillSeconds(FITTED, short), at))
    expect(errorOf(learner.costModel, long, prefillSeconds(FITTED, long))).toBeLessThan(0.05)
  })

  it('PrefillFitter follows an engine that became three times slower', () => {
    const learner = new PrefillFitter(FITTED)
    const random = chance(7)
    for (let at = 0; at < 600; at++) {
      const size = { promptTokens: 200 + Math.floor(random() * 8000), cachedTokens: 0 }
      learner.learn(took(size, prefillSeconds(FITTED, size) * (at < 300 ? 1 : 3), at * 10_000))
    }
    const size = { promptTokens: 4000, cachedTokens: 0 }
    expect(errorOf(learner.costModel, size, 3 * prefillSeconds(FITTED, size))).toBeLessThan(0.1)
  })

  it.each([1 / 30, 0.1, 1 / 3, 3, 10, 30])(
    'PrefillFitter goes by the new pace of an engine after a dozen answers at %d times the old one, also for sizes not seen since',
    (factor) => {
      const learner = new PrefillFitter(gpu)
      const random = chance(11)
      const answer = (max: number, pace: number, at: number): void => {
        const size = { promptTokens: Math.round(100 * (max / 100) ** random()), cachedTokens: 0 }
        learner.learn(took(size, prefillSeconds(FITTED, size) * pace * (1 + (random() - 0.5) * 0.16), at * 200))
      }
      for (let at = 0; at < 300; at++) answer(20_000, 1, at)
      for (let at = 300; at < 312; at++) answer(4000, factor, at)
      for (const promptTokens of [100, 1000, 4000, 20_000]) {
        const size = { promptTokens, cachedTokens: 0 }
        expect(errorOf(learner.costModel, size, factor * prefillSeconds(FITTED, size))).toBeLessThan(0.4)
      }
    },
  )

  describe('after a delay of 150 ms on short prompts', () => {
    const TRUE: PrefillCostModel = { fixedS: 0.02, perTokenS: 0.8e-3, perPairS: 0 }
    const cold = { promptTokens: 600, cachedTokens: 0 }
    const turn = { promptTokens: 640, cachedTokens: 592 }
    const answer = (learner: PrefillFitter, at: number, delayS: number, size: PromptSize = turn): void =>
      learner.learn(took(size, prefillSeconds(TRUE, size) + delayS, at * 860))
    const delayed = (): PrefillFitter => {
      const learner = new PrefillFitter(gpu)
      for (let at = 0; at < 40; at++) answer(learner, at, 0, at % 2 === 0 ? cold : turn)
      for (let at = 40; at < 54; at++) answer(learner, at, 0.15)
      return learner
    }

    it('PrefillFitter after a delay believes a delay, and no other cost of new tokens', () => {
      const { costModel } = delayed()
      expect(prefillSeconds(costModel, turn)).toBeCloseTo(prefillSeconds(TRUE, turn) + 0.15, 1)
      expect(prefillSeconds(costModel, cold)).toBeLessThan(prefillSeconds(TRUE, cold) + 0.2)
      expect(costModel.perTokenS).toBeLessThan(1.25 * TRUE.perTokenS)
    })

    it('PrefillFitter after a delay restores the earlier cost after three usual answers, of any size', () => {
      for (const size of [turn, cold]) {
        const learner = delayed()
        for (let at = 54; at < (size === turn ? 57 : 64); at++) answer(learner, at, 0, size)
        expect(errorOf(learner.costModel, cold, prefillSeconds(TRUE, cold))).toBeLessThan(0.1)
      }
    })

    it('PrefillFitter after a delay takes it as a slower engine as soon as long prompts are slower, too', () => {
      const learner = delayed()
      const factor = (prefillSeconds(TRUE, turn) + 0.15) / prefillSeconds(TRUE, turn)
      for (let at = 54; at < 60; at++)
        answer(learner, at, (factor - 1) * prefillSeconds(TRUE, at % 2 === 0 ? cold : turn), at % 2 === 0 ? cold : turn)
      expect(errorOf(learner.costModel, cold, factor * prefillSeconds(TRUE, cold))).toBeLessThan(0.3)
    })
  })

  it('PrefillFitter ignores four outliers in a row', () => {
    const learner = new PrefillFitter(FITTED)
    const random = chance(5)
    for (let at = 0; at < 80; at++) {
      const size = { promptTokens: Math.round(100 * 100 ** random()), cachedTokens: 0 }
      learner.learn(took(size, prefillSeconds(FITTED, size) * (at < 50 || at > 53 ? 1 : 10), at * 1000))
      const typical = { promptTokens: 3000, cachedTokens: 0 }
      expect(errorOf(learner.costModel, typical, prefillSeconds(FITTED, typical))).toBeLessThan(0.05)
    }
    expect(learner.samples).toBe(80)
  })

  it('PrefillFitter never has a negative or non-finite coefficient, whatever the samples', () => {
    const sample = fc.record({
      newTokens: fc.integer({ min: -10, max: 200_000 }),
      pairs: fc.integer({ min: 0, max: 2e10 }),
      seconds: fc.oneof(fc.double({ min: -1, max: 1e5 }), fc.constant(NaN)),
      at: fc.integer({ min: 0, max: 1e7 }),
    })
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 40 }), (samples) => {
        const learner = new PrefillFitter(gpu)
        for (const one of samples) learner.learn(one)
        const { fixedS, perTokenS, perPairS } = learner.costModel
        for (const value of [fixedS, perTokenS, perPairS]) expect(value >= 0 && Number.isFinite(value)).toBe(true)
        expect(fixedS + perTokenS + perPairS).toBeGreaterThan(0)
      }),
    )
  })
})

describe('the cost model', () => {
  it('the cost model charges only the fixed part for a prompt that is fully cached', () => {
    expect(prefillSeconds(FITTED, { promptTokens: 1000, cachedTokens: 1000 })).toBe(FITTED.fixedS)
    expect(prefillSeconds(FITTED, { promptTokens: 1000, cachedTokens: 5000 })).toBe(FITTED.fixedS)
    expect(attentionPairs({ promptTokens: 10, cachedTokens: 20 })).toBe(0)
  })

  it('the cost model charges the queue a share of a step for a small prompt and a whole step for a large one', () => {
    const small = { promptTokens: 256, cachedTokens: 0 }
    const large = { promptTokens: 8192, cachedTokens: 0 }
    expect(prefillSeconds(FITTED, small) - queueSeconds(FITTED, small)).toBeCloseTo(FITTED.fixedS * (1 - 256 / 2048))
    expect(queueSeconds(FITTED, large)).toBe(prefillSeconds(FITTED, large))
  })
})

const cost = (name: string): number => prefillSeconds(profile(name)!, { promptTokens: 8000, cachedTokens: 0 })

describe('profiles', () => {
  it('the table of profiles derives more time from more parameters and less from more or faster GPUs', () => {
    expect(cost('h100-70b')).toBeGreaterThan(6 * cost('h100-8b'))
    expect(cost('h100x4-70b')).toBeLessThan(cost('h100-70b') / 3)
    expect(cost('a100-8b')).toBeGreaterThan(2 * cost('h100-8b'))
  })

  it.each(['', 'h100', 'h100-0b', 'abacus-8b', 'h100-8b-extra', 'x-b'])(
    'the table of profiles does not know "%s"',
    (name) => {
      expect(profile(name)).toBeNull()
    },
  )
})

describe('a first token whose response has not ended', () => {
  const size: PromptSize = { promptTokens: 4096, cachedTokens: 0 }

  it('a first token is a sample of a new engine until its response ends', () => {
    const fitter = new PrefillFitter(gpu)
    const usual = prefillSeconds(gpu, size)
    fitter.learnEarly(took(size, usual / 4, 0))
    expect(fitter.samples).toBe(1)
    expect(prefillSeconds(fitter.costModel, size)).toBeCloseTo(usual / 4, 1)
    fitter.learn(took(size, 4 * usual, 1000))
    expect(fitter.samples).toBe(1)
    expect(errorOf(fitter.costModel, size, 4 * usual)).toBeLessThan(0.05)
  })

  it('a first token is no sample of an engine that has three, or whose speed was restored', () => {
    const known = new PrefillFitter(gpu)
    for (let at = 0; at < 3; at += 1) known.learn(took(size, 1, at))
    known.learnEarly(took(size, 10, 3))
    expect(known.samples).toBe(3)
    const restored = new PrefillFitter(gpu)
    restored.restore(gpu)
    restored.learnEarly(took(size, 10, 0))
    expect(restored.samples).toBe(0)
  })
})
