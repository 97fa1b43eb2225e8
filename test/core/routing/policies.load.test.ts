import { describe, expect, it } from 'vitest'
import type { PolicyConfig } from '../../../src/core/contract/pool-config.ts'
import { policyKind } from '../../../src/core/routing/policies/index.ts'
import type { Candidate, Policy, RouteRequest, Signals } from '../../../src/core/routing/policy.ts'
import { asRanked } from './ranked-policy.ts'

const BLOCK_TOKENS = 64
const costModel = { fixedS: 0.02, perTokenS: 1e-4, perPairS: 1e-9 }
const IDLE: Signals = {
  requests: 0,
  arrivals: 0,
  turn: 0,
  recentWork: 0,
  recentNewTokens: 0,
  activeBlocks: 0,
  newActiveBlocks: 0,
  liveTokens: 0,
  liveSharers: 0,
  placeWaitS: 0,
  cachedTokens: 0,
  slowTokens: { host: 0, disk: 0, remote: 0 },
  lookupTokens: 0,
  queuedPrefills: 0,
  queuedPrefillTokens: 0,
  queuedWork: 0,
  queuedPrefillS: 0,
  foreignRequests: 0,
  capacityBlocks: Infinity,
  rttS: 0,
  costModel,
  confidence: 1,
  decodeCostModel: { baseS: 0.01, perRequestS: 0.0005, perBlockS: 1e-5 },
  warmth: 1,
  adapterFit: 1,
}

const request = (promptTokens: number, changes: Partial<RouteRequest> = {}): RouteRequest => ({
  id: 'r',
  model: 'm',
  adapter: null,
  promptTokens,
  blockTokens: BLOCK_TOKENS,
  blockCount: Math.floor(promptTokens / BLOCK_TOKENS),
  prefixKey: 0,
  session: null,
  expectedOutputTokens: null,
  usualOutputTokens: null,
  ...changes,
})

const engines = (described: Readonly<Record<string, Partial<Signals>>>): Candidate[] =>
  Object.entries(described).map(([id, changes]) => ({ id, weight: 1, ...IDLE, ...changes }))

const policy = (name: string, options: PolicyConfig['options'] = {}): Policy => policyKind(name)!.create(options)
const noChance = (): number => {
  throw new Error('temperature 0 takes no chances')
}

const rank = (
  name: string,
  promptTokens: number,
  described: Readonly<Record<string, Partial<Signals>>>,
  options: PolicyConfig['options'] = {},
) => asRanked(policy(name, options), request(promptTokens), engines(described), noChance)
const order = (...args: Parameters<typeof rank>): string[] => rank(...args).map(({ engine }) => engine)
const costs = (...args: Parameters<typeof rank>) =>
  Object.fromEntries(rank(...args).map(({ engine, cost }) => [engine, cost]))

describe('ttft', () => {
  it('adds queued and new work by the trapezoid formula', () => {
    // production-stack.md: work(1000, 0) = 500500, work(1000, 256) = 467604.
    expect(costs('ttft', 1000, { busy: { queuedWork: 100_000, cachedTokens: 256 }, idle: {} })).toEqual({
      busy: 567_604,
      idle: 500_500,
    })
  })

  it('gives up a cached engine once it is busier than the cache saves', () => {
    const saved = 500_500 - 467_604
    expect(order('ttft', 1000, { idle: {}, cached: { cachedTokens: 256, queuedWork: saved - 1 } })[0]).toBe('cached')
    expect(order('ttft', 1000, { idle: {}, cached: { cachedTokens: 256, queuedWork: saved + 1 } })[0]).toBe('idle')
  })

  it('clamps cached tokens to the prompt’s length', () => {
    expect(costs('ttft', 10, { over: { cachedTokens: 20 }, exact: { cachedTokens: 10 } })).toEqual({
      over: 0,
      exact: 0,
    })
  })

  it('ranks by the queue alone if all engines share one cache', () => {
    const fleet = { holder: { cachedTokens: 900, queuedWork: 5 }, other: {} }
    expect(order('ttft', 1000, fleet)[0]).toBe('holder')
    expect(order('ttft', 1000, fleet, { sharedCache: true })[0]).toBe('other')
  })

  it('reads only the lookup if configured so', () => {
    expect(policy('ttft', { cache: 'lookup' }).needs).toContain('lookupTokens')
    expect(
      order('ttft', 1000, { index: { cachedTokens: 900 }, looked: { lookupTokens: 500 } }, { cache: 'lookup' })[0],
    ).toBe('looked')
  })
})

describe('kv_aware', () => {
  // production-stack: fall back when matched < max(len(tokens) - threshold, 0).
  it.each([
    ['exactly at the threshold', 3000, 2000, 5000, true],
    ['one token short of it', 2999, 2000, 5000, false],
    ['a full match with threshold 0', 5000, 0, 5000, true],
    ['anything at all with a huge threshold', 1, 1e9, 5000, true],
    ['nothing matched', 0, 1e9, 5000, false],
  ])('%s', (_, matched, threshold, promptTokens, ranks) => {
    expect(order('kv_aware', promptTokens, { a: {}, b: { lookupTokens: matched } }, { threshold })).toEqual(
      ranks ? ['b', 'a'] : [],
    )
  })
})

describe('prefix', () => {
  it('follows the longest prefix while load is in balance', () => {
    expect(
      order('prefix', 1000, { idle: {}, some: { cachedTokens: 400 }, most: { cachedTokens: 800, requests: 60 } }),
    ).toEqual(['most', 'some', 'idle'])
  })

  it.each([
    ['both limits passed: by load', 65 + 1, 1, 'idle'],
    ['the absolute one alone: by cache', 200 + 65, 200, 'cached'],
    ['the relative one alone: by cache', 64, 0, 'cached'],
  ])('%s', (_, busy, rest, winner) => {
    expect(order('prefix', 1000, { idle: { requests: rest }, cached: { cachedTokens: 900, requests: busy } })[0]).toBe(
      winner,
    )
  })

  it('uses load if no engine exceeds the minimum match', () => {
    expect(order('prefix', 1000, { held: { cachedTokens: 300, requests: 1 }, idle: {} })[0]).toBe('idle')
    expect(order('prefix', 1000, { held: { cachedTokens: 301, requests: 1 }, idle: {} })[0]).toBe('held')
  })
})

describe('active_blocks', () => {
  it('has the pull request’s cost: overlap weight x uncached blocks + potential blocks', () => {
    // 10 prompt blocks and a tail = ceil(650/64) = 11; 4 of them cached on b.
    const fleet = {
      a: { activeBlocks: 20, newActiveBlocks: 11 },
      b: { activeBlocks: 26, newActiveBlocks: 7, cachedTokens: 256 },
    }
    expect(costs('active_blocks', 650, fleet)).toEqual({ a: 11 + 31, b: 7 + 33 })
    expect(costs('active_blocks', 650, fleet, { overlapWeight: 0.25 })).toEqual({ a: 2.75 + 31, b: 1.75 + 33 })
  })

  it('is pure load balancing with overlap weight 0', () => {
    const fleet = {
      cached: { cachedTokens: 640, activeBlocks: 9, newActiveBlocks: 1 },
      light: { activeBlocks: 1, newActiveBlocks: 8 },
    }
    expect(order('active_blocks', 650, fleet)[0]).toBe('cached')
    expect(order('active_blocks', 650, fleet, { overlapWeight: 0 })[0]).toBe('light')
  })

  it('draws by exp(-cost / (max x temperature)), as the pull request does', () => {
    const fleet = engines({ a: { activeBlocks: 10 }, b: { activeBlocks: 20 } })
    const made = policy('active_blocks', { temperature: 0.5, overlapWeight: 0 })
    // Costs 10 and 20, over the largest: 0.5 and 1. b has e^-1 against a's 1.
    const shareOfA = 1 / (1 + Math.exp(-1))
    const winner = (draw: number): string => asRanked(made, request(0), fleet, () => draw)[0]!.engine
    expect([winner(shareOfA - 1e-9), winner(shareOfA + 1e-9)]).toEqual(['a', 'b'])
  })

  it('lists every engine once for any draw', () => {
    const fleet = engines({ a: { activeBlocks: 1 }, b: { activeBlocks: 2 }, c: { activeBlocks: 3 } })
    for (const draw of [0, 0.4, 0.7, 0.999999]) {
      const ranked = asRanked(policy('active_blocks', { temperature: 2 }), request(64), fleet, () => draw)
      expect(ranked.map(({ engine }) => engine).sort()).toEqual(['a', 'b', 'c'])
    }
  })

  it('has today’s cost with rule: today', () => {
    // Example of Dynamo's docs: of costs 18, 10 and 11, worker 2 wins. Computed by hand in blocks of 64:
    // a: queued 128 + 640 -> 12 blocks, no credit, potential 5 + 10
    // b: 640 -> 10 blocks, 4 on the GPU and 4 in host memory (3 credit), potential 12 + 2
    const fleet = {
      a: { queuedPrefillTokens: 128, activeBlocks: 5, newActiveBlocks: 10, requests: 1 },
      b: {
        cachedTokens: 512,
        slowTokens: { host: 256, disk: 0, remote: 0 },
        activeBlocks: 12,
        newActiveBlocks: 2,
        requests: 3,
      },
    }
    expect(costs('active_blocks', 640, fleet, { rule: 'today' })).toEqual({ a: 12 + 15, b: 10 - 7 + 14 })
    expect(costs('active_blocks', 640, fleet, { rule: 'today', requestWeight: 4 })).toEqual({ a: 27 + 4, b: 17 + 12 })
    expect(costs('active_blocks', 640, fleet, { rule: 'today', overlapWeight: 0 })).toEqual({ a: 15, b: 14 })
  })

  it('reduces the GPU credit with the queue beyond the shortest one', () => {
    // excess = 640/64 = 10 blocks, request 10 blocks: 1/(1 + 1 x 10/10) halves the credit of 8.
    const fleet = { busy: { queuedPrefillTokens: 640, cachedTokens: 512 }, idle: {} }
    expect(costs('active_blocks', 640, fleet, { rule: 'today', creditDecay: 1 })).toEqual({ busy: 20 - 4, idle: 10 })
  })
})

describe('lmetric', () => {
  it('multiplies new and queued tokens plus one by the batch plus one', () => {
    expect(costs('lmetric', 1000, { a: { cachedTokens: 900, requests: 4 }, b: { requests: 0 } })).toEqual({
      a: 101 * 5,
      b: 1001,
    })
    expect(costs('lmetric', 1000, { a: { queuedPrefillTokens: 500 } })).toEqual({ a: 1501 })
    expect(costs('lmetric', 1000, { a: { queuedPrefillTokens: 500 } }, { queued: false })).toEqual({ a: 1001 })
  })

  it('ranks fully cached engines by load', () => {
    expect(order('lmetric', 1000, { busy: { cachedTokens: 1000, requests: 9 }, idle: { cachedTokens: 1000 } })[0]).toBe(
      'idle',
    )
  })
})

/** `predicted` with only the terms of the time to first token. */
const bare = { workWeight: 0, decodeWeight: 0, barrierS: 0, recentShare: 0, slowStart: 0, indifferenceS: 0 }
const nearAndFar = (rttS: number) => ({ near: { costModel: { ...costModel, perTokenS: 2e-4 } }, far: { rttS } })
const oldAndFresh = (warmth: number) => ({ old: { queuedPrefillS: 0.1 }, fresh: { warmth } })
/** Queued prompts so long that none shares a step. */
const queuedLong = (queuedPrefills: number) => ({ queuedPrefills, queuedPrefillTokens: Infinity })
const cachedOrIdle = (queuedPrefillS: number) => ({ idle: {}, cached: { cachedTokens: 1000, queuedPrefillS } })

describe('predicted', () => {
  it('rotates only engines with an imperceptible difference', () => {
    const fleet = { slower: { rttS: 0.0049 }, best: {}, worse: { rttS: 0.0051 } }
    expect(order('predicted', 100, fleet, { ...bare, indifferenceS: 0.005 })).toEqual(['slower', 'best', 'worse'])
    expect(order('predicted', 100, fleet, bare)).toEqual(['best', 'slower', 'worse'])
  })

  it('gives up a cache hit in rotation only if it saves almost no time', () => {
    // 64 of 100 tokens save slightly more than 0.0064 s, a fifth of 0.032 s.
    const fleet = { idle: {}, cached: { cachedTokens: 64, queuedPrefillS: 0.0001 } }
    expect(order('predicted', 100, fleet, { ...bare, indifferenceS: 0.031 })[0]).toBe('cached')
    expect(order('predicted', 100, fleet, { ...bare, indifferenceS: 0.033 })[0]).toBe('idle')
  })

  it('is network + queue + cost model, in seconds', () => {
    // 4000 tokens, 1000 cached: 0.02 + 3000 x 1e-4 + (16e6 - 1e6)/2 x 1e-9 = 0.3275
    const { a } = costs('predicted', 4000, { a: { rttS: 0.03, queuedPrefillS: 0.5, cachedTokens: 1000 } }, bare)
    expect(a).toBeCloseTo(0.03 + 0.5 + 0.3275, 12)
  })

  it('leaves a cached engine exactly when its queue takes longer than the cache saves', () => {
    const saved = 1000 * 1e-4 + ((1000 * 1000) / 2) * 1e-9
    expect(order('predicted', 4000, cachedOrIdle(saved - 1e-6), bare)[0]).toBe('cached')
    expect(order('predicted', 4000, cachedOrIdle(saved + 1e-6), bare)[0]).toBe('idle')
  })

  it('waits longer for a cached engine when the whole fleet has queues', () => {
    const saved = 1000 * 1e-4 + ((1000 * 1000) / 2) * 1e-9
    const fleet = (waiting: number) => ({
      cold: { ...queuedLong(waiting), queuedPrefillS: 1 },
      cached: { cachedTokens: 1000, ...queuedLong(waiting), queuedPrefillS: 1 + 2 * saved },
    })
    const values = { ...bare, workWeight: 1 }
    expect(order('predicted', 4000, fleet(0), values)[0]).toBe('cold')
    expect(order('predicted', 4000, fleet(2), values)[0]).toBe('cached')
    expect(order('predicted', 4000, fleet(2), bare)[0]).toBe('cold')
  })

  it('counts the wait for a place twice: those who come later wait as much longer', () => {
    const values = { ...bare, workWeight: 1 }
    const fleet = { full: { queuedPrefillS: 2, placeWaitS: 2 }, free: {} }
    const { full, free } = costs('predicted', 0, fleet, values)
    expect(full! - free!).toBeCloseTo(4, 12)
    expect(costs('predicted', 0, fleet, bare)['full']! - costs('predicted', 0, fleet, bare)['free']!).toBeCloseTo(2, 12)
  })

  it('copies a prefix that many live requests share to an engine without load, and that of one request never', () => {
    const fleet = (liveSharers: number) => ({
      holder: { liveTokens: 3936, liveSharers, cachedTokens: 3936, queuedPrefillS: 0.1 },
      empty: {},
    })
    const values = { ...bare, workWeight: 1 }
    expect(order('predicted', 4000, fleet(1), values)[0]).toBe('holder')
    expect(order('predicted', 4000, fleet(20), values)[0]).toBe('empty')
    // The more engines hold it, the fewer requests would use a further copy.
    const others = Object.fromEntries(
      Array.from({ length: 19 }, (_, at) => [`other-${at}`, { cachedTokens: 3936, queuedPrefillS: 0.1 }]),
    )
    expect(order('predicted', 4000, { ...fleet(20), ...others }, values)[0]).not.toBe('empty')
  })

  it('copies a shared prefix to an idle engine, and charges it only to waiting requests', () => {
    const values = { ...bare, workWeight: 1 }
    // All but the last 64 tokens are in use by live requests of `crowded`, which has nine tenths of the queued prompts.
    const fleet = (live: boolean, waiting: number) => ({
      crowded: { liveTokens: live ? 3936 : 0, cachedTokens: 3968, ...queuedLong(9), queuedPrefillS: 0.5 },
      other: queuedLong(waiting),
    })
    expect(order('predicted', 4000, fleet(false, 0), values)[0]).toBe('crowded')
    expect(order('predicted', 4000, fleet(true, 0), values)[0]).toBe('other')
    expect(order('predicted', 4000, fleet(true, 2), values)[0]).toBe('crowded')
    // 4000 - 64 tokens are live. The rest is charged as work. A second of the copied prefix is charged a tenth, and 3.1
    // with one waiting prompt.
    const [wholeS, restS] = [0, 4000 - 64].map(
      (cached) => 0.02 + (4000 - cached) * 1e-4 + ((16e6 - cached * cached) / 2) * 1e-9,
    )
    const { other } = costs('predicted', 4000, fleet(true, 1), values)
    expect(other).toBeCloseTo(wholeS! + 8 * restS! + 3.1 * (wholeS! - restS!), 12)
    // An engine without prefix caching keeps no copy for later prompts.
    const { forgetful } = costs(
      'predicted',
      4000,
      { crowded: fleet(true, 0).crowded, forgetful: { liveTokens: -1, ...queuedLong(1) } },
      values,
    )
    expect(forgetful).toBeCloseTo(9 * wholeS!, 12)
  })

  it('weights work by (1 + queued prefills) squared, a quarter more on its own engine, for at most two', () => {
    const coldS = 0.02 + 4000 * 1e-4 + (16e6 / 2) * 1e-9
    const values = { ...bare, workWeight: 1 }
    const priced = (one: number, other: number) =>
      costs('predicted', 4000, { one: queuedLong(one), other: queuedLong(other) }, values)
    expect(priced(0, 0)['one']).toBeCloseTo(coldS, 12)
    // Both queues have one prompt: work is weighted by (1 + 1)².
    expect(priced(1, 1)['one']).toBeCloseTo(4 * coldS, 12)
    // The mean is one: 2 times 2, plus or minus a quarter of the engine's difference.
    expect(priced(2, 0)['one']).toBeCloseTo(2 * 2.25 * coldS, 12)
    expect(priced(2, 0)['other']).toBeCloseTo(2 * 1.75 * coldS, 12)
    expect(priced(50, 50)['one']).toBeCloseTo(9 * coldS, 12)
  })

  describe('charges the delay of prompts in the same step', () => {
    // 100 tokens: 0.02 x 100 / 2048 + 100 x 1e-4 + 1e4 / 2 x 1e-9 s.
    const addedS = (0.02 * 100) / 2048 + 100 * 1e-4 + (1e4 / 2) * 1e-9
    const values = { ...bare, workWeight: 1 }
    const delayS = (promptTokens: number, queuedPrefills: number, queuedPrefillTokens: number) => {
      const fleet = (tokens: number) => ({ a: { queuedPrefills, queuedPrefillTokens: tokens } })
      const of = (tokens: number) => costs('predicted', promptTokens, fleet(tokens), values)['a']!
      return of(queuedPrefillTokens) - of(Infinity)
    }

    it('in full for each that waits, up to half a step', () => {
      expect(delayS(100, 0, 0)).toBe(0)
      expect(delayS(100, 3, 300)).toBeCloseTo(3 * addedS, 12)
      expect(delayS(100, 8, 1024)).toBeCloseTo(8 * addedS, 12)
      expect(delayS(100, 16, 2048)).toBeCloseTo(8 * addedS, 12)
    })

    it('by the part of a long prompt in the step', () => {
      const longS = 0.02 + 10_240 * 1e-4 + (10_240 ** 2 / 2) * 1e-9
      expect(delayS(10_240, 2, 200)).toBeCloseTo((2 * longS) / 10, 12)
    })

    it('never less for a longer queue', () => {
      const queue = Array.from({ length: 40 }, (_, waiting) => delayS(100, waiting, 600 * waiting))
      for (const [at, one] of queue.entries()) expect(one).toBeGreaterThanOrEqual((queue[at - 1] ?? 0) - 1e-12)
    })

    it('so that a burst of short prompts is spread although one engine has all prefixes cached', () => {
      const fleet = (waiting: number) => ({
        cached: {
          cachedTokens: 150,
          queuedPrefills: waiting,
          queuedPrefillTokens: 50 * waiting,
          queuedPrefillS: 0.0055 * waiting,
        },
        cold: {},
        other: {},
        third: {},
      })
      expect(order('predicted', 200, fleet(1), values)[0]).toBe('cached')
      expect(order('predicted', 200, fleet(2), values)[0]).toBe('cold')
    })
  })

  it('prefers a distant engine if it is fast enough, else the near one', () => {
    expect(order('predicted', 1000, nearAndFar(0.09), bare)[0]).toBe('far')
    expect(order('predicted', 1000, nearAndFar(0.11), bare)[0]).toBe('near')
  })

  it('counts the time to load cached tokens from slower tiers', () => {
    const { a } = costs(
      'predicted',
      1000,
      { a: { cachedTokens: 900, slowTokens: { host: 300, disk: 200, remote: 100 } } },
      bare,
    )
    expect(a).toBeCloseTo(0.02 + 100 * 1e-4 + ((1e6 - 81e4) / 2) * 1e-9 + 300 * 6e-6 + 200 * 40e-6 + 100 * 100e-6, 12)
  })

  it('keeps away from an engine that would run out of KV memory, the more the fuller', () => {
    const fleet = {
      over: { activeBlocks: 1200, capacityBlocks: 1000 },
      full: { activeBlocks: 990, newActiveBlocks: 10, capacityBlocks: 1000 },
      half: { activeBlocks: 500, capacityBlocks: 1000, queuedPrefillS: 0.5 },
      unknown: { activeBlocks: 5000, queuedPrefillS: 0.9 },
    }
    expect(order('predicted', 100, fleet, { ...bare, barrierS: 0.1 })).toEqual(['half', 'unknown', 'full', 'over'])
  })

  it('prefers the emptier of two engines with room for KV blocks', () => {
    const fleet = {
      fuller: { activeBlocks: 600, capacityBlocks: 1000 },
      emptier: { activeBlocks: 300, capacityBlocks: 1000 },
    }
    expect(order('predicted', 100, fleet, { ...bare, barrierS: 0.1 })).toEqual(['emptier', 'fuller'])
  })

  it('prefers engines with the adapter, then those with room for it, then full ones', () => {
    expect(
      order(
        'predicted',
        100,
        { full: { adapterFit: -1 }, cold: { adapterFit: 0 }, warm: { adapterFit: 1, queuedPrefillS: 0.4 } },
        bare,
      ),
    ).toEqual(['warm', 'cold', 'full'])
    expect(
      order('predicted', 100, { cold: { adapterFit: 0 }, warm: { adapterFit: 1, queuedPrefillS: 0.6 } }, bare)[0],
    ).toBe('cold')
  })

  it('doubles the cost of a new engine at first, then less', () => {
    expect(order('predicted', 1000, oldAndFresh(0), { ...bare, slowStart: 1 })[0]).toBe('old')
    expect(order('predicted', 1000, oldAndFresh(0.5), { ...bare, slowStart: 1 })[0]).toBe('fresh')
  })

  it('weights decode time by the decode weight and the expected output', () => {
    const made = policy('predicted', { ...bare, decodeWeight: 0.1 })
    const fleet = engines({ busy: { requests: 20 }, idle: { queuedPrefillS: 0.05 } })
    const winner = (expectedOutputTokens: number): string =>
      asRanked(made, request(100, { expectedOutputTokens }), fleet, noChance)[0]!.engine
    // 20 requests add 10 ms per token: 0.1 x 10 ms x 50 tokens equals the other engine's queue.
    expect([winner(49), winner(51)]).toEqual(['busy', 'idle'])
  })

  it('expects the usual output of the pool, at most the option', () => {
    const made = policy('predicted', { ...bare, decodeWeight: 0.1, expectedOutputTokens: 100 })
    const fleet = engines({ busy: { requests: 20 }, idle: { queuedPrefillS: 0.05 } })
    const winner = (changes: Partial<RouteRequest>): string =>
      asRanked(made, request(100, changes), fleet, noChance)[0]!.engine
    expect(winner({ usualOutputTokens: null })).toBe('idle')
    expect(winner({ usualOutputTokens: 49 })).toBe('busy')
    expect(winner({ usualOutputTokens: 51 })).toBe('idle')
    expect(winner({ usualOutputTokens: 49, expectedOutputTokens: 51 })).toBe('idle')
    const low = policy('predicted', { ...bare, decodeWeight: 0.1, expectedOutputTokens: 49 })
    expect(asRanked(low, request(100, { usualOutputTokens: 1e6 }), fleet, noChance)[0]!.engine).toBe('busy')
  })

  it('ranks an engine of weight 0 last', () => {
    const [idle] = engines({ idle: {} })
    const [busy] = engines({ busy: { queuedPrefillS: 1000 } })
    const ranked = asRanked(policy('predicted'), request(100), [{ ...idle!, weight: 0 }, busy!], noChance)
    expect(ranked.map(({ engine }) => engine)).toEqual(['busy', 'idle'])
    expect(ranked.every(({ cost }) => Number.isFinite(cost))).toBe(true)
  })
})

describe('options', () => {
  it.each([
    ['active_blocks', { overlapWeight: -1 }, /overlapWeight must be a number from 0 to 100, got -1/],
    ['active_blocks', { rule: 'tomorrow' }, /rule must be one of pull_request, today/],
    ['predicted', { tempreature: 1 }, /Unknown policy option 'tempreature'; known: .*temperature/],
    ['ttft', { sharedCache: 1 }, /sharedCache must be a boolean/],
  ])('of %s are checked: %j', (name, options, message) => {
    expect(() => policy(name, options as PolicyConfig['options'])).toThrow(message)
  })
})
