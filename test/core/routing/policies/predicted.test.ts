import { expect, it } from 'vitest'
import type { RouteRequest } from '../../../../src/core/routing/policy.ts'
import { asRanked, candidates, costModel, policyNamed, rankingBy, routeRequest } from '../ranked-policy.ts'

const { order, costs } = rankingBy('predicted')

/** `predicted` with only the terms of the time to first token. */
const bare = { workWeight: 0, decodeWeight: 0, barrierS: 0, recentShare: 0, slowStart: 0, indifferenceS: 0 }
const nearAndFar = (rttS: number) => ({ near: { costModel: { ...costModel, perTokenS: 2e-4 } }, far: { rttS } })
const oldAndFresh = (warmth: number) => ({ old: { queuedPrefillS: 0.1 }, fresh: { warmth } })
/** Queued prompts so long that none shares a step. */
const queuedLong = (queuedPrefills: number) => ({ queuedPrefills, queuedPrefillTokens: Infinity })
const cachedOrIdle = (queuedPrefillS: number) => ({ idle: {}, cached: { cachedTokens: 1000, queuedPrefillS } })

const withWork = { ...bare, workWeight: 1 }
// 100 tokens: 0.02 x 100 / 2048 + 100 x 1e-4 + 1e4 / 2 x 1e-9 s.
const addedS = (0.02 * 100) / 2048 + 100 * 1e-4 + (1e4 / 2) * 1e-9
/** Seconds that a prompt is charged for the prompts in its step. */
const delayS = (promptTokens: number, queuedPrefills: number, queuedPrefillTokens: number) => {
  const fleet = (tokens: number) => ({ a: { queuedPrefills, queuedPrefillTokens: tokens } })
  const of = (tokens: number) => costs(promptTokens, fleet(tokens), withWork)['a']!
  return of(queuedPrefillTokens) - of(Infinity)
}

it('predicted rotates only engines whose difference is below indifferenceS', () => {
  const fleet = { slower: { rttS: 0.0049 }, best: {}, worse: { rttS: 0.0051 } }
  expect(order(100, fleet, { ...bare, indifferenceS: 0.005 })).toEqual(['slower', 'best', 'worse'])
  expect(order(100, fleet, bare)).toEqual(['best', 'slower', 'worse'])
})

it('predicted rotates a cached engine with an idle one only if the cache saves less than a fifth of indifferenceS', () => {
  // 64 of 100 tokens save slightly more than 0.0064 s, a fifth of 0.032 s.
  const fleet = { idle: {}, cached: { cachedTokens: 64, queuedPrefillS: 0.0001 } }
  expect(order(100, fleet, { ...bare, indifferenceS: 0.031 })[0]).toBe('cached')
  expect(order(100, fleet, { ...bare, indifferenceS: 0.033 })[0]).toBe('idle')
})

it('predicted costs network + queue + cost model, in seconds', () => {
  // 4000 tokens, 1000 cached: 0.02 + 3000 x 1e-4 + (16e6 - 1e6)/2 x 1e-9 = 0.3275
  const { a } = costs(4000, { a: { rttS: 0.03, queuedPrefillS: 0.5, cachedTokens: 1000 } }, bare)
  expect(a).toBeCloseTo(0.03 + 0.5 + 0.3275, 12)
})

it('predicted leaves a cached engine exactly when its queue takes longer than the cache saves', () => {
  const saved = 1000 * 1e-4 + ((1000 * 1000) / 2) * 1e-9
  expect(order(4000, cachedOrIdle(saved - 1e-6), bare)[0]).toBe('cached')
  expect(order(4000, cachedOrIdle(saved + 1e-6), bare)[0]).toBe('idle')
})

it('predicted waits longer for a cached engine when all engines have queues', () => {
  const saved = 1000 * 1e-4 + ((1000 * 1000) / 2) * 1e-9
  const fleet = (waiting: number) => ({
    cold: { ...queuedLong(waiting), queuedPrefillS: 1 },
    cached: { cachedTokens: 1000, ...queuedLong(waiting), queuedPrefillS: 1 + 2 * saved },
  })
  expect(order(4000, fleet(0), withWork)[0]).toBe('cold')
  expect(order(4000, fleet(2), withWork)[0]).toBe('cached')
  expect(order(4000, fleet(2), bare)[0]).toBe('cold')
})

it('predicted counts the wait for a place twice, since later requests wait as much longer', () => {
  const fleet = { full: { queuedPrefillS: 2, placeWaitS: 2 }, free: {} }
  const { full, free } = costs(0, fleet, withWork)
  expect(full! - free!).toBeCloseTo(4, 12)
  expect(costs(0, fleet, bare)['full']! - costs(0, fleet, bare)['free']!).toBeCloseTo(2, 12)
})

it('predicted copies the prefix of many live requests to an idle engine, and the prefix of one request never', () => {
  const fleet = (liveSharers: number) => ({
    holder: { liveTokens: 3936, liveSharers, cachedTokens: 3936, queuedPrefillS: 0.1 },
    empty: {},
  })
  expect(order(4000, fleet(1), withWork)[0]).toBe('holder')
  expect(order(4000, fleet(20), withWork)[0]).toBe('empty')
  // The more engines hold it, the fewer requests would use a further copy.
  const others = Object.fromEntries(
    Array.from({ length: 19 }, (_, at) => [`other-${at}`, { cachedTokens: 3936, queuedPrefillS: 0.1 }]),
  )
  expect(order(4000, { ...fleet(20), ...others }, withWork)[0]).not.toBe('empty')
})

it('predicted charges the copy of a live prefix only to waiting requests', () => {
  // All but the last 64 tokens are in use by live requests of `crowded`, which has nine tenths of the queued prompts.
  const fleet = (live: boolean, waiting: number) => ({
    crowded: { liveTokens: live ? 3936 : 0, cachedTokens: 3968, ...queuedLong(9), queuedPrefillS: 0.5 },
    other: queuedLong(waiting),
  })
  expect(order(4000, fleet(false, 0), withWork)[0]).toBe('crowded')
  expect(order(4000, fleet(true, 0), withWork)[0]).toBe('other')
  expect(order(4000, fleet(true, 2), withWork)[0]).toBe('crowded')
  // 4000 - 64 tokens are live. The rest is charged as work. A second of the copied prefix is charged a tenth, and 3.1
  // with one waiting prompt.
  const [wholeS, restS] = [0, 4000 - 64].map(
    (cached) => 0.02 + (4000 - cached) * 1e-4 + ((16e6 - cached * cached) / 2) * 1e-9,
  )
  const { other } = costs(4000, fleet(true, 1), withWork)
  expect(other).toBeCloseTo(wholeS! + 8 * restS! + 3.1 * (wholeS! - restS!), 12)
  // An engine without prefix caching keeps no copy for later prompts.
  const { forgetful } = costs(
    4000,
    { crowded: fleet(true, 0).crowded, forgetful: { liveTokens: -1, ...queuedLong(1) } },
    withWork,
  )
  expect(forgetful).toBeCloseTo(9 * wholeS!, 12)
})

it('predicted weights work by (1 + queued prefills) squared, a quarter more on its own engine, for at most two', () => {
  const coldS = 0.02 + 4000 * 1e-4 + (16e6 / 2) * 1e-9
  const priced = (one: number, other: number) =>
    costs(4000, { one: queuedLong(one), other: queuedLong(other) }, withWork)
  expect(priced(0, 0)['one']).toBeCloseTo(coldS, 12)
  // Both queues have one prompt: work is weighted by (1 + 1)².
  expect(priced(1, 1)['one']).toBeCloseTo(4 * coldS, 12)
  // The mean is one: 2 times 2, plus or minus a quarter of the engine's difference.
  expect(priced(2, 0)['one']).toBeCloseTo(2 * 2.25 * coldS, 12)
  expect(priced(2, 0)['other']).toBeCloseTo(2 * 1.75 * coldS, 12)
  expect(priced(50, 50)['one']).toBeCloseTo(9 * coldS, 12)
})

it('predicted charges a prompt the delay of each prompt in the same step, up to half a step', () => {
  expect(delayS(100, 0, 0)).toBe(0)
  expect(delayS(100, 3, 300)).toBeCloseTo(3 * addedS, 12)
  expect(delayS(100, 8, 1024)).toBeCloseTo(8 * addedS, 12)
  expect(delayS(100, 16, 2048)).toBeCloseTo(8 * addedS, 12)
})

it('predicted charges the delay of a long prompt by its part in the step', () => {
  const longS = 0.02 + 10_240 * 1e-4 + (10_240 ** 2 / 2) * 1e-9
  expect(delayS(10_240, 2, 200)).toBeCloseTo((2 * longS) / 10, 12)
})

it('predicted never charges less delay for a longer queue', () => {
  const queue = Array.from({ length: 40 }, (_, waiting) => delayS(100, waiting, 600 * waiting))
  for (const [at, one] of queue.entries()) expect(one).toBeGreaterThanOrEqual((queue[at - 1] ?? 0) - 1e-12)
})

it('predicted spreads a burst of short prompts although one engine has all prefixes cached', () => {
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
  expect(order(200, fleet(1), withWork)[0]).toBe('cached')
  expect(order(200, fleet(2), withWork)[0]).toBe('cold')
})

it('predicted prefers a distant engine only if it is faster by more than its round trip', () => {
  expect(order(1000, nearAndFar(0.09), bare)[0]).toBe('far')
  expect(order(1000, nearAndFar(0.11), bare)[0]).toBe('near')
})

it('predicted adds the time to load cached tokens from slower tiers', () => {
  const { a } = costs(1000, { a: { cachedTokens: 900, slowTokens: { host: 300, disk: 200, remote: 100 } } }, bare)
  expect(a).toBeCloseTo(0.02 + 100 * 1e-4 + ((1e6 - 81e4) / 2) * 1e-9 + 300 * 6e-6 + 200 * 40e-6 + 100 * 100e-6, 12)
})

it('predicted costs more the fuller the KV memory of an engine is', () => {
  const fleet = {
    over: { activeBlocks: 1200, capacityBlocks: 1000 },
    full: { activeBlocks: 990, newActiveBlocks: 10, capacityBlocks: 1000 },
    half: { activeBlocks: 500, capacityBlocks: 1000, queuedPrefillS: 0.5 },
    unknown: { activeBlocks: 5000, queuedPrefillS: 0.9 },
  }
  expect(order(100, fleet, { ...bare, barrierS: 0.1 })).toEqual(['half', 'unknown', 'full', 'over'])
})

it('predicted follows the queues if the memory of all engines is full', () => {
  const fleet = {
    quick: { activeBlocks: 3_050, capacityBlocks: 1000, queuedPrefillS: 19 },
    slow: { activeBlocks: 3_000, capacityBlocks: 1000, queuedPrefillS: 120 },
  }
  expect(order(100, fleet, { ...bare, barrierS: 0.1 })).toEqual(['quick', 'slow'])
})

it('predicted charges no more for full memory than the time in which running requests free it', () => {
  const on = (activeBlocks: number, barrierS = 0.1) =>
    costs(100, { a: { activeBlocks, capacityBlocks: 1000 } }, { ...bare, barrierS })['a']!
  expect(on(1_980) - on(980)).toBeGreaterThan(1)
  expect(on(1_980) - on(980)).toBeLessThan(20)
  expect(on(1e9) - on(0)).toBeLessThan(125)
  expect(on(1e9, 0)).toBe(on(0, 0))
})

it('predicted prefers the emptier of two engines with room for KV blocks', () => {
  const fleet = {
    fuller: { activeBlocks: 600, capacityBlocks: 1000 },
    emptier: { activeBlocks: 300, capacityBlocks: 1000 },
  }
  expect(order(100, fleet, { ...bare, barrierS: 0.1 })).toEqual(['emptier', 'fuller'])
})

it('predicted prefers engines with the adapter, then those with room for it, then full ones', () => {
  expect(
    order(
      100,
      { full: { adapterFit: -1 }, cold: { adapterFit: 0 }, warm: { adapterFit: 1, queuedPrefillS: 0.4 } },
      bare,
    ),
  ).toEqual(['warm', 'cold', 'full'])
  expect(order(100, { cold: { adapterFit: 0 }, warm: { adapterFit: 1, queuedPrefillS: 0.6 } }, bare)[0]).toBe('cold')
})

it('predicted doubles the cost of an engine without warmth, and less of a warmer one', () => {
  expect(order(1000, oldAndFresh(0), { ...bare, slowStart: 1 })[0]).toBe('old')
  expect(order(1000, oldAndFresh(0.5), { ...bare, slowStart: 1 })[0]).toBe('fresh')
})

it('predicted weights decode time by the decode weight and the expected output', () => {
  const made = policyNamed('predicted', { ...bare, decodeWeight: 0.1 })
  const fleet = candidates({ busy: { requests: 20, itlS: 0.02 }, idle: { queuedPrefillS: 0.16 } })
  const winner = (expectedOutputTokens: number): string =>
    asRanked(made, routeRequest(100, { expectedOutputTokens }), fleet)[0]!.engine
  // Tokens take 10 ms longer, and 20 requests wait 10 ms per token and 0.6 s for the prefill, all together:
  // 0.1 x (20 ms x 50 tokens + 0.6 s) equals the other engine's queue.
  expect([winner(49), winner(51)]).toEqual(['busy', 'idle'])
})

it('predicted expects the usual output of the pool, at most expectedOutputTokens', () => {
  const made = policyNamed('predicted', { ...bare, decodeWeight: 0.1, expectedOutputTokens: 100 })
  const fleet = candidates({ busy: { requests: 20, itlS: 0.02 }, idle: { queuedPrefillS: 0.16 } })
  const winner = (changes: Partial<RouteRequest>): string =>
    asRanked(made, routeRequest(100, changes), fleet)[0]!.engine
  expect(winner({ usualOutputTokens: null })).toBe('idle')
  expect(winner({ usualOutputTokens: 49 })).toBe('busy')
  expect(winner({ usualOutputTokens: 51 })).toBe('idle')
  expect(winner({ usualOutputTokens: 49, expectedOutputTokens: 51 })).toBe('idle')
  const low = policyNamed('predicted', { ...bare, decodeWeight: 0.1, expectedOutputTokens: 49 })
  expect(asRanked(low, routeRequest(100, { usualOutputTokens: 1e6 }), fleet)[0]!.engine).toBe('busy')
})

it('predicted charges the delay of all running streams: a standstill for the prefill, and longer steps', () => {
  const made = policyNamed('predicted', { ...bare, decodeWeight: 0.1 })
  const streamsS = (engine: Parameters<typeof candidates>[0][string]): number =>
    asRanked(made, routeRequest(100, { expectedOutputTokens: 50 }), candidates({ engine }))[0]!.terms['streams_s']!
  const prefillS = 0.02 + 100 * 1e-4 + (1e4 / 2) * 1e-9
  expect(streamsS({})).toBe(0)
  // Prompts without a first token are no streams.
  expect(streamsS({ requests: 3, queuedPrefills: 3 })).toBe(0)
  expect(streamsS({ requests: 6, foreignRequests: 4, queuedPrefills: 3, addedItlS: 0.0015 })).toBeCloseTo(
    0.1 * 7 * (prefillS + 50 * 0.0015),
    12,
  )
})

it('predicted expects of each engine its usual share of the queues', () => {
  const fleet = { fast: { usualQueuedPrefills: 3 }, slow: { usualQueuedPrefills: 0 } }
  const { fast, slow } = costs(100, fleet, withWork)
  const alone = costs(100, fleet, bare)
  // The mean of 1 + usual is 2.5, and no prompt waits: work counts as with queues of 4 / 2.5 - 1 and 1 / 2.5 - 1.
  const pressureOf = (expected: number) => (1 + expected) * (1 + 0.75 * expected) - 1
  const prefillS = 0.02 + 100 * 1e-4 + (1e4 / 2) * 1e-9
  expect(fast! - alone['fast']!).toBeCloseTo(prefillS * pressureOf(0.6), 12)
  expect(slow! - alone['slow']!).toBeCloseTo(prefillS * pressureOf(-0.6), 12)
})

it('predicted ranks an engine of weight 0 last', () => {
  const [idle] = candidates({ idle: {} })
  const [busy] = candidates({ busy: { queuedPrefillS: 1000 } })
  const ranked = asRanked(policyNamed('predicted'), routeRequest(100), [{ ...idle!, weight: 0 }, busy!])
  expect(ranked.map(({ engine }) => engine)).toEqual(['busy', 'idle'])
  expect(ranked.every(({ cost }) => Number.isFinite(cost))).toBe(true)
})
