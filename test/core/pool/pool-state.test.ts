import * as fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { CacheCapacity } from '../../../src/core/pool/estimators/cache-capacity.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { EngineDigest } from '../../../src/core/contract/pool-digest.ts'
import type { EngineSpec, PolicyConfig, PoolConfig } from '../../../src/core/contract/pool-config.ts'
import type { Outcome } from '../../../src/core/contract/outcome.ts'
import type { PoolSnapshot } from '../../../src/core/pool/snapshot.ts'
import { admission, engine, engines, outcome, pool, probe, stats } from '../../kit/pool-fixtures.ts'
import { chain, range } from '../prefix-index/block-chains.ts'

const BLOCK_TOKENS = 64
const four = ['a', 'b', 'c', 'd']
const predicted: PolicyConfig = { name: 'predicted', options: {} }

/** A pool state with a clock and short operations. */
function open(changes: Partial<PoolConfig> = {}) {
  let seed = 3
  const random = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return seed / 2 ** 32
  }
  const state = new PoolState({ random, epoch: 'e' })
  state.configure(1, pool({ policy: predicted, engines: engines(...four), indexEntries: 100_000, ...changes }), 0)
  const clock = { now: 0 }
  const admit = (content: readonly (string | number)[], more: Partial<Admission> = {}) => {
    const answer = state.admit(
      admission({ blocks: chain(content), promptTokens: content.length * BLOCK_TOKENS + 1, ...more }),
      clock.now,
    )
    if ('refusal' in answer) throw new Error(JSON.stringify(answer.refusal))
    const { placement, key } = answer
    return {
      key,
      engine: placement.kind === 'whole' ? placement.engine : placement.decode,
      placement,
      predictedTtftMs: answer.predictedTtftMs,
      decision: state.explain(key)!,
    }
  }
  const finish = (key: string, end: Partial<Outcome> = {}) => state.release(key, outcome(end), clock.now)
  /** One whole request of one second on an idle fleet. */
  const serve = (content: readonly (string | number)[], end: Partial<Outcome> = {}, more: Partial<Admission> = {}) => {
    const admitted = admit(content, more)
    clock.now += 500
    state.firstToken(admitted.key, { ttft: 500 }, clock.now)
    clock.now += 500
    finish(admitted.key, end)
    return admitted
  }
  const digestOf = (id: string): EngineDigest => state.digest(clock.now).engines.find((one) => one.id === id)!
  return { state, clock, admit, finish, serve, digestOf }
}

const usage = (cachedTokens: number | null, promptTokens = 641) => ({
  usage: { promptTokens, completionTokens: 20, cachedTokens },
})
const hint = (id: string, matchedTokens: number) => ({ engine: id, matchedTokens, tier: 'device' as const })
const loaded = (running: string[], max: number) => ({ stats: stats({ adapters: { running, max } }) })
const share = (ids: readonly string[], id: string): number => ids.filter((one) => one === id).length / ids.length

let cluster = open()
beforeEach(() => {
  cluster = open()
})

describe('predicted', () => {
  it('the predicted policy sends a prompt to the engine with its prefix cached', () => {
    const { serve } = cluster
    const first = serve(range(0, 200))
    for (const other of range(0, 8)) serve([`other ${other}`, ...range(0, 30)])
    expect(serve([...range(0, 200), 'next turn']).engine).toBe(first.engine)
  })

  it('the predicted policy sends concurrent requests with one prefix to the same engine before the first response', () => {
    const { admit } = cluster
    const first = admit(range(0, 400))
    const second = admit([...range(0, 400), 'sibling'])
    expect(second.decision.predictedCachedTokens).toBe(400 * BLOCK_TOKENS)
    expect(second.engine).toBe(first.engine)
  })

  it('the predicted policy leaves a cached engine when its queue outweighs the cached tokens', () => {
    const { serve, admit } = cluster
    const { engine: cached } = serve(range(0, 50))
    const chosen = range(0, 40).map(
      (tail) => admit([...range(0, 50), `long tail ${tail}`, ...range(1000, 1300)]).engine,
    )
    expect(chosen[0]).toBe(cached)
    expect(share(chosen, cached)).toBeLessThan(0.35)
  })

  it('the predicted policy spreads a hot short prefix with long random tails', () => {
    const { admit } = cluster
    const chosen = range(0, 100).map(
      (tail) =>
        admit(['shared 0', 'shared 1', 'shared 2', 'shared 3', ...range(0, 330).map((at) => `${tail}/${at}`)]).engine,
    )
    for (const id of four) expect(share(chosen, id)).toBeGreaterThan(0.2)
  })

  it('the predicted policy does not concentrate requests on a common first block', () => {
    const { serve, clock } = cluster
    const chosen = range(0, 80).map((at) => {
      clock.now += 2000
      return serve(['common', `own ${at}`, ...range(0, 6).map((block) => `${at}/${block}`)]).engine
    })
    for (const id of four) expect(share(chosen, id)).toBeGreaterThan(0.15)
  })

  it('the predicted policy removes queued work at the first token, on failure and on abort, to exactly zero', () => {
    const { admit, state, clock, finish, digestOf } = cluster
    const [first, second, third] = [admit(range(0, 900)), admit(range(2000, 2900)), admit(range(4000, 4900))]
    expect(four.map((id) => digestOf(id).queuedPrefillS).filter((seconds) => seconds > 0)).toHaveLength(3)
    state.firstToken(first.key, {}, clock.now)
    finish(second.key, { result: 'engine_failed', failure: 'connect' })
    finish(third.key, { result: 'client_gone' })
    finish(first.key)
    for (const id of four) expect(digestOf(id)).toMatchObject({ queuedPrefillS: 0, activeBlocks: 0, requests: 0 })
  })

  it('the predicted policy counts no cached tokens for a prompt that was never prefilled', () => {
    const { admit, finish } = cluster
    const failed = admit(range(0, 100))
    finish(failed.key, { result: 'engine_failed', failure: 'connect' })
    const again = admit(range(0, 100))
    expect(again.decision.candidates.every(({ terms }) => terms['cached_tokens'] === 0)).toBe(true)
  })

  it('the predicted policy counts the output of a stream, reported or not, until it ends', () => {
    const { state, admit, clock, digestOf, finish } = cluster
    const { key, engine: id } = admit(range(0, 10))
    state.firstToken(key, {}, clock.now)
    clock.now += 60_000
    const potential = () =>
      admit(['probe']).decision.candidates.find((one) => one.engine === id)!.terms['potential_blocks']!
    expect(potential()).toBeGreaterThan(11 + 20)
    state.progress(key, 7, clock.now)
    expect(digestOf(id).activeBlocks).toBe(11 + 7)
    finish(key)
    expect(digestOf(id).activeBlocks).toBeLessThanOrEqual(2)
  })

  it('the predicted policy predicts at most all but one token as cached, because an engine computes at least one', () => {
    const { serve, admit } = cluster
    serve(range(0, 10), {}, { promptTokens: 640 })
    expect(admit(range(0, 10), { promptTokens: 640 }).decision.predictedCachedTokens).toBe(639)
  })
})

describe('lookup hints', () => {
  it('lookup hints are ignored for unknown engines and limited to the prompt’s length', () => {
    const { admit } = cluster
    const { engine: id, decision } = admit(range(0, 100), { hints: [hint('gone', 6400), hint('c', 1e9)] })
    expect(id).toBe('c')
    expect(decision.predictedCachedTokens).toBe(6400)
  })

  it('lookup hints are combined with the index by maximum, not by sum', () => {
    const { serve, admit } = cluster
    const { engine: id } = serve(range(0, 100))
    const { decision } = admit([...range(0, 100), ...range(500, 600)], { hints: [hint(id, 3200)] })
    expect(decision.predictedCachedTokens).toBe(6400)
  })

  it('lookup hints that are missing or empty leave kv_aware to its fallback', () => {
    const state = open({ policy: { name: 'kv_aware', options: {} } })
    expect(state.admit(range(0, 100), { hints: null }).decision).toMatchObject({
      policy: 'qps',
      fallback: { from: 'kv_aware' },
    })
    expect(state.admit(range(0, 100), { hints: [], session: 's' }).decision).toMatchObject({
      policy: 'session',
      fallback: { from: 'kv_aware' },
    })
    expect(state.admit(range(0, 100), { hints: [hint('b', 6400)] })).toMatchObject({
      engine: 'b',
      decision: { policy: 'kv_aware', fallback: null },
    })
  })
})

describe('engines without prefix caching', () => {
  it('engines without prefix caching get no credit for cached tokens and hold every copy in full', () => {
    const { serve, admit, digestOf } = open({ engines: [engine('a', { prefixCaching: 'off' })] })
    serve(range(0, 100))
    const { decision } = admit(range(0, 100))
    admit(range(0, 100))
    expect(decision.predictedCachedTokens).toBe(0)
    expect(digestOf('a').activeBlocks).toBe(202)
  })

  it('engines without prefix caching are charged the full cost of a copy for later requests', () => {
    const { admit } = open({ engines: [engine('a'), engine('b', { prefixCaching: 'off' }), engine('c')] })
    admit(range(0, 100), { avoid: ['b', 'c'] })
    const { candidates } = admit(range(0, 100)).decision
    const taken = (id: string) => candidates.find((one) => one.engine === id)!.terms['taken_s']!
    expect(taken('c')).toBeGreaterThan(0)
    expect(taken('b')).toBeGreaterThan(3 * taken('c'))
  })

  it('engines without prefix caching are detected by their metrics', () => {
    const { state, serve, admit, clock } = open({ engines: [engine('a')] })
    serve(range(0, 100))
    state.observe([probe('a', clock.now, { stats: stats({ prefixCaching: false }) })], clock.now)
    expect(admit(range(0, 100)).decision.predictedCachedTokens).toBe(0)
  })

  it('engines without prefix caching are not assumed from a reported block size of 0', () => {
    const { state, serve, digestOf } = cluster
    state.observe(
      four.map((id) => probe(id, 0, { stats: stats({ blockTokens: 0, cacheBlocks: 500 }) })),
      0,
    )
    serve(range(0, 10))
    const { decision, engine: id } = serve([...range(0, 10), 'more'])
    expect(decision.predictedCachedTokens).toBe(640)
    expect(
      decision.candidates.flatMap(({ cost, terms }) => [cost, ...Object.values(terms)]).every(Number.isFinite),
    ).toBe(true)
    expect(digestOf(id)).toMatchObject({ queuedPrefillS: 0, queuedPrefillTokens: 0 })
  })
})

describe('blocks of prompts that are measured in bytes', () => {
  const texts = [2.9, 4, 6]
  /** Chunks of 256 bytes, as in a pool without a vocabulary. */
  const text = (name: string, chunks: number, bytesPerToken: number) => ({
    content: range(0, chunks).map((at) => `${name}/${at}`),
    more: { tokenSource: 'bytes' as const, promptTokens: Math.ceil((chunks * 256 + 100) / bytesPerToken) },
  })

  it.each(texts)(
    'blocks measured in bytes are KV blocks where they are shown and where room is judged, %d bytes to a token',
    (bytesPerToken) => {
      const { admit, digestOf, finish } = open({ engines: [engine('a', { cacheBlocks: 100_000 })] })
      const keys: string[] = []
      let tokens = 0
      for (const at of range(0, 40)) {
        const { content, more } = text(`t${at}`, 50 + at, bytesPerToken)
        const { key, decision } = admit(content, more)
        tokens += more.promptTokens
        keys.push(key)
        if (at > 20)
          expect(decision.candidates[0]!.terms['potential_blocks']! / (tokens / BLOCK_TOKENS)).toBeCloseTo(1, 1)
      }
      expect(digestOf('a').activeBlocks / (tokens / BLOCK_TOKENS)).toBeCloseTo(1, 1)
      for (const key of keys) finish(key)
      expect(digestOf('a')).toMatchObject({ activeBlocks: 0 })
      expect(digestOf('a').cachedBlocks / (tokens / BLOCK_TOKENS)).toBeCloseTo(1, 1)
    },
  )

  it.each(texts)('fill an engine’s cache as far as their tokens do, %d bytes to a token', (bytesPerToken) => {
    const { serve, admit, digestOf } = open({ engines: [engine('a', { cacheBlocks: 1000 })] })
    const prompts = range(0, 40).map((at) => text(`t${at}`, 100, bytesPerToken))
    for (const { content, more } of prompts) serve(content, {}, more)
    const { cachedBlocks } = digestOf('a')
    expect(cachedBlocks).toBeLessThanOrEqual(1000)
    expect(cachedBlocks).toBeGreaterThan(900)
    const believed = prompts.filter(
      ({ content, more }) => (admit([...content, 'more'], more).decision.predictedCachedTokens ?? 0) > 0,
    )
    expect(believed.length * prompts[0]!.more.promptTokens).toBeLessThan(1.1 * 1000 * BLOCK_TOKENS)
  })

  it('blocks measured in bytes never exceed the capacity of the engine, even while a larger prompt runs', () => {
    const { admit, digestOf } = open({ engines: [engine('a', { cacheBlocks: 50 })] })
    admit(range(0, 100))
    expect(digestOf('a').cachedBlocks).toBe(50)
  })

  it('blocks measured in bytes do not change for prompts made of token ids', () => {
    const { admit, digestOf } = open({ engines: [engine('a')] })
    admit(range(0, 100))
    expect(digestOf('a').activeBlocks).toBe(101)
  })
})

describe('prompts with blocks for none or only some of their tokens', () => {
  it.each([
    ['that cannot be read', [], 10_000],
    ['of a hundred texts, each with the rest of a block', range(500, 600), 10_000],
    ['that are longer in tokens than the mean of the pool says', range(500, 600), 30_000],
  ])('%s, cost the same as an unshared prompt of equal length', (_name, content, promptTokens) => {
    const { admit, finish } = cluster
    for (const at of range(0, 12)) admit([`waits ${at}`, ...range(0, 30)])
    const takenS = (blocks: readonly (string | number)[]): number => {
      const { key, decision } = admit(blocks, { promptTokens })
      finish(key)
      return decision.candidates.find((one) => one.engine === 'a')!.terms['taken_s']!
    }
    expect(takenS(content)).toBeCloseTo(takenS(range(1000, 1000 + Math.ceil(promptTokens / BLOCK_TOKENS))), 6)
  })
})

describe('an engine that recomputes the last cached block because of speculative decoding', () => {
  /** Conversations of two requests each. The engine reports `lost` tokens fewer than are cached. */
  const talk = (
    known: Pick<ReturnType<typeof open>, 'serve'>,
    { turns, lost }: { readonly turns: number; readonly lost: number },
  ) =>
    range(0, turns).map((at) => {
      const begin = [`talk ${lost} ${at}`, ...range(0, 9)]
      known.serve(begin, usage(0, 641))
      return known.serve([...begin, 'next'], usage(640 - lost, 705)).decision.predictedCachedTokens
    })

  it('recomputation of the last cached block is assumed after several responses, until a hit includes the block', () => {
    const known = open({ engines: engines('a') })
    known.state.observe([probe('a', 0, { stats: stats({ blockTokens: 64 }) })], 0)
    expect(talk(known, { turns: 20, lost: 64 })).toEqual([
      ...Array.from({ length: 8 }, () => 640),
      ...Array.from({ length: 12 }, () => 576),
    ])
    expect(known.digestOf('a').learned).toMatchObject({ restarts: 0, silentMiss: null, cacheBlocks: null })
    expect(talk(known, { turns: 3, lost: 0 })).toEqual([576, 640, 640])
  })

  it('recomputation of the last cached block is not assumed for an engine that evicts', () => {
    const known = open({ engines: engines('a') })
    known.state.observe([probe('a', 0, { stats: stats({ blockTokens: 64 }) })], 0)
    expect(new Set(talk(known, { turns: 20, lost: 128 }))).toEqual(new Set([640]))
  })
})

describe('requests that bypass the prefix cache', () => {
  const only = { avoid: ['b', 'c', 'd'], computesAll: true }

  it('requests that bypass the prefix cache do not report a restart, a silent miss or a smaller cache', () => {
    const { serve, admit, digestOf } = cluster
    serve(range(0, 100), usage(0, 6401), { avoid: ['b', 'c', 'd'] })
    for (const turn of range(0, 3))
      serve([...range(0, 100), `turn ${turn}`], usage(6400, 6465), { avoid: ['b', 'c', 'd'] })
    const before = digestOf('a').learned!
    for (const turn of range(0, 20)) serve([...range(0, 100), `scored ${turn}`], usage(0, 6465), only)
    expect(digestOf('a').learned).toMatchObject({ restarts: 0, silentMiss: null, cacheBlocks: before.cacheBlocks })
    expect(admit([...range(0, 100), 'next'], { avoid: ['b', 'c', 'd'] }).decision.predictedCachedTokens).toBe(6400)
  })

  it('requests that bypass the prefix cache are booked with all of their work and blocks on any engine', () => {
    const { serve, admit, finish, digestOf } = cluster
    serve(range(0, 100), usage(0, 6401), { avoid: ['b', 'c', 'd'] })
    const hits = admit(range(0, 100), { avoid: ['b', 'c', 'd'] })
    const { key, decision } = admit(range(0, 100), { ...only, hints: [hint('a', 6400)] })
    expect(decision.predictedCachedTokens).toBe(0)
    expect(decision.candidates[0]!.terms['cached_tokens']).toBe(0)
    expect(digestOf('a').activeBlocks).toBe(2 * 101)
    finish(hits.key)
    finish(key)
    expect(digestOf('a')).toMatchObject({ activeBlocks: 0, queuedPrefillS: 0 })
  })

  it('requests that bypass the prefix cache leave their blocks cached for later requests, unless they failed', () => {
    const { serve, admit, finish } = cluster
    serve(range(0, 100), usage(0, 6401), only)
    expect(admit([...range(0, 100), 'next']).decision.predictedCachedTokens).toBe(6400)
    finish(admit([...range(0, 100), ...range(500, 600)], only).key, { result: 'engine_failed', failure: 'connect' })
    expect(admit([...range(0, 100), ...range(500, 600)]).decision.predictedCachedTokens).toBe(6400)
  })
})

describe('usual output of the pool', () => {
  const decodeS = () => {
    const { key, decision } = cluster.admit(['probe'])
    cluster.finish(key, { result: 'client_gone' })
    return decision.candidates[0]!.terms['decode_s']!
  }
  const tokens = (completionTokens: number) => ({ usage: { promptTokens: 65, completionTokens, cachedTokens: 0 } })

  it('usual output of the pool is learned from complete responses: the cost of decoding follows', () => {
    const { serve } = cluster
    const unknown = decodeS()
    for (const at of range(0, 2)) serve([`gone ${at}`], { ...tokens(1), result: 'client_gone' })
    expect(decodeS() / unknown).toBeCloseTo(1, 6)
    // One token shows no time between tokens.
    for (const at of range(0, 20)) serve([`short ${at}`], tokens(1))
    expect(decodeS() / unknown).toBeCloseTo(1 / 256, 6)
    for (const at of range(0, 20)) serve([`four ${at}`], tokens(4), { sequences: 4 })
    expect(decodeS() / unknown).toBeCloseTo(1 / 256, 6)
  })
})

describe('responses with several sequences', () => {
  const only = { avoid: ['b', 'c', 'd'] }
  const outputS = () => cluster.admit(['probe'], only).decision.candidates[0]!.terms['decode_s']!

  it('responses with several sequences do not make their engine look faster', () => {
    const { serve } = cluster
    const tokens = (completionTokens: number) => ({ usage: { promptTokens: 65, completionTokens, cachedTokens: 0 } })
    for (const at of range(0, 30)) serve([`one ${at}`], tokens(101), only)
    const before = outputS()
    for (const at of range(0, 30)) serve([`eight ${at}`], tokens(8 * 101), { ...only, sequences: 8 })
    expect(outputS()).toBeCloseTo(before, 2)
  })

  it.each([true, false])(
    'responses with several sequences count as so many while nobody reads them (streamed: %s), and end at nothing',
    (streams) => {
      const grownBy = (sequences: number): number => {
        const { admit, state, clock, finish, digestOf } = open({ engines: [engine('a', {})] })
        const { key } = admit(['prompt'], { sequences, streams })
        if (streams) state.firstToken(key, {}, clock.now)
        clock.now += 1000
        // A request without a first token counts as prefilled by now.
        finish(admit(['settles']).key)
        clock.now += 20_000
        const { key: probing, decision } = admit(['probe'])
        const blocks = decision.candidates[0]!.terms['potential_blocks']!
        finish(probing)
        finish(key)
        expect(digestOf('a').activeBlocks).toBe(0)
        clock.now += 20_000
        expect(admit(['probe']).decision.candidates[0]!.terms['potential_blocks']).toBe(2)
        // Without the blocks of the two prompts.
        return blocks - 4
      }
      expect(grownBy(4) / grownBy(1)).toBeCloseTo(4, 0)
    },
  )
})

describe('an engine with a new configuration', () => {
  const anew = (changes: Partial<EngineSpec>, more: Partial<PoolConfig> = {}) =>
    pool({ policy: predicted, engines: [engine('a', changes), engine('b')], indexEntries: 100_000, ...more })
  const costModelOf = (profile: string) =>
    open({ engines: [engine('a', { profile })] }).digestOf('a').learned!.costModel

  it('an engine with a new configuration uses the prior of its new profile, and keeps bookings and caches', () => {
    const { state, admit, digestOf, finish } = open({ engines: [engine('a', { profile: 'l4-8b' }), engine('b')] })
    const only = { avoid: ['b'] }
    finish(admit(range(0, 100), only).key)
    const { key } = admit(range(0, 50), only)
    const before = digestOf('a')
    expect(before.learned!.costModel).toEqual(costModelOf('l4-8b'))
    state.configure(2, anew({ profile: 'b200-70b' }), 0)
    expect(digestOf('a').learned!.costModel).toEqual(costModelOf('b200-70b'))
    expect(digestOf('a')).toMatchObject({
      requests: 1,
      activeBlocks: before.activeBlocks,
      cachedBlocks: before.cachedBlocks,
    })
    expect(admit(range(0, 100), only).decision.predictedCachedTokens).toBe(6400)
    finish(key)
    expect(digestOf('a').requests).toBe(1)
  })

  it('an engine with a new configuration uses its own samples first, then the prior of its new profile', () => {
    const { state, serve, digestOf } = open({ engines: engines('a', 'b') })
    for (const at of range(0, 20)) serve([at, ...range(0, 30)], usage(0, 1985), { avoid: ['a'] })
    const learned = digestOf('b').learned!.costModel
    expect(digestOf('a').learned!.costModel).toEqual(learned)
    state.configure(2, anew({ profile: 'l4-8b' }), 0)
    expect(digestOf('a').learned!.costModel).toEqual(costModelOf('l4-8b'))
    state.configure(
      3,
      pool({ policy: predicted, engines: [engine('a'), engine('b', { profile: 'l4-8b' })], indexEntries: 100_000 }),
      0,
    )
    expect(digestOf('b').learned!.costModel).toEqual(learned)
  })

  it('an engine with a new configuration uses the current cache size, or none if none is configured', () => {
    const { state, serve, digestOf, admit } = open({ engines: [engine('a', { cacheBlocks: 50 }), engine('b')] })
    const only = { avoid: ['b'] }
    serve(range(0, 200), {}, only)
    expect(digestOf('a')).toMatchObject({ cacheBlocks: 50, cachedBlocks: 50 })
    state.configure(2, anew({}), 0)
    expect(digestOf('a').cacheBlocks).toBeNull()
    serve(range(0, 200), {}, only)
    expect(digestOf('a').cachedBlocks).toBe(200)
    state.configure(3, anew({ prefixCaching: 'off' }), 0)
    state.configure(4, anew({}), 0)
    expect(admit(range(0, 200), only).decision.predictedCachedTokens).toBe(0)
  })

  it('in another role rotates with engines of that role', () => {
    const turns: PolicyConfig = { name: 'round_robin', options: {} }
    const { state, serve } = open({ policy: turns, engines: engines('a', 'b', 'c') })
    for (const at of range(0, 60)) serve([at], {}, { avoid: ['b', 'c'] })
    for (const at of range(0, 4)) serve([at], {}, { avoid: ['a'] })
    // Until now engine a only served whole requests. From here on it prefills, beside an engine without any requests.
    state.configure(
      2,
      pool({
        policy: turns,
        engines: [engine('a', { role: 'prefill' }), engine('d', { role: 'prefill' }), engine('b', { role: 'decode' })],
      }),
      0,
    )
    const prefills = range(0, 10).map((at) => {
      const { placement } = serve([`split ${at}`])
      return placement.kind === 'split' ? placement.prefill : 'whole'
    })
    expect(prefills.filter((id) => id === 'a')).toHaveLength(5)
  })

  it('an engine with a new configuration is ranked as if it had started with that configuration', () => {
    const one = fc.record({
      weight: fc.constantFrom(1, 2),
      profile: fc.constantFrom(null, 'l4-8b', 'b200-70b'),
      cacheBlocks: fc.constantFrom(null, 5_000, 9_000),
      maxInFlight: fc.constantFrom(null, 1, 9),
      rttMs: fc.constantFrom(0, 40),
      models: fc.constantFrom(null, ['qwen'], ['other']),
    })
    const talk = fc.record({
      on: fc.nat(1),
      of: fc.nat(3),
      blocks: fc.integer({ min: 1, max: 30 }),
      ends: fc.boolean(),
      waitMs: fc.nat(3000),
    })
    const names = ['a', 'b']
    fc.assert(
      fc.property(
        fc.tuple(one, one),
        fc.array(talk, { maxLength: 20 }),
        fc.array(talk, { maxLength: 10 }),
        (now, before, after) => {
          // Until now every engine can serve, so both states have the same bookings.
          const from = (described: EngineSpec[]) => open({ engines: described })
          const plain = { maxInFlight: null, models: null }
          const worlds = [
            from(names.map((id) => engine(id))),
            from(names.map((id, at) => engine(id, { ...now[at]!, ...plain }))),
          ]
          const wanted = pool({
            policy: predicted,
            engines: names.map((id, at) => engine(id, now[at]!)),
            indexEntries: 100_000,
          })
          const decisions = worlds.map(({ state, clock, admit, finish }) => {
            const live: string[] = []
            for (const { on, of, blocks, ends, waitMs } of before) {
              clock.now += waitMs
              const { key } = admit(
                range(0, blocks).map((at) => `${of}/${at}`),
                { id: `r${clock.now}/${live.length}/${on}/${blocks}`, avoid: [names[1 - on]!] },
              )
              if (ends) finish(key, { result: 'client_gone' })
              else live.push(key)
            }
            state.configure(2, wanted, clock.now)
            for (const key of live) finish(key)
            return after.map(({ of, blocks, waitMs }) => {
              clock.now += waitMs
              return state.rank(
                admission({
                  id: 'x',
                  blocks: chain(range(0, blocks).map((at) => `${of}/${at}`)),
                  promptTokens: blocks * 64 + 1,
                }),
                clock.now,
              )
            })
          })
          expect(decisions[0]).toEqual(decisions[1])
        },
      ),
      { numRuns: 150 },
    )
  })
})

describe('feedback from engines', () => {
  it('feedback from engines sets silentMiss if predicted hits never occur, and stops counting them', () => {
    const { serve, admit, digestOf } = open({ engines: [engine('a')] })
    for (const _ of range(0, 10)) serve(range(0, 100), usage(0, 6401))
    expect(digestOf('a').learned!.silentMiss).toContainEqual(expect.stringContaining('template'))
    expect(admit(range(0, 100)).decision.candidates[0]!.terms['cached_tokens']).toBe(0)
  })

  it('feedback from engines clears silentMiss at the first hit', () => {
    const { serve, digestOf } = open({ engines: [engine('a')] })
    for (const _ of range(0, 10)) serve(range(0, 100), usage(0, 6401))
    serve(range(0, 100), usage(6400, 6401))
    expect(digestOf('a').learned!.silentMiss).toBeNull()
  })

  it('feedback from engines does not set silentMiss if engines report no cached tokens', () => {
    const { serve, digestOf } = open({ engines: [engine('a')] })
    for (const _ of range(0, 30)) serve(range(0, 100), usage(null, 6401))
    expect(digestOf('a').learned).toMatchObject({ silentMiss: null, restarts: 0 })
  })

  it('feedback from engines detects a restart after three misses in a row that followed hits, and clears the index', () => {
    const { serve, admit, digestOf } = open({ engines: [engine('a')] })
    for (const name of range(0, 6)) serve([name, ...range(0, 50)], usage(null))
    for (const name of range(0, 2)) serve([name, ...range(0, 50)], usage(51 * 64, 3265))
    for (const name of range(2, 5)) serve([name, ...range(0, 50)], usage(0, 3265))
    expect(digestOf('a').learned).toMatchObject({ restarts: 1 })
    expect(admit([5, ...range(0, 50)]).decision.candidates[0]!.terms['cached_tokens']).toBe(0)
  })

  it('feedback from engines ignores misses of concurrent requests whose shared prefix was not yet computed', () => {
    const { admit, finish, state, clock, digestOf, serve } = open({ engines: [engine('a')] })
    serve(['old', ...range(0, 50)], usage(null))
    serve(['old', ...range(0, 50)], usage(51 * 64, 3265))
    const burst = range(0, 20).map(() => admit(range(0, 100)))
    for (const { key } of burst) state.firstToken(key, {}, (clock.now += 10))
    for (const { key } of burst) finish(key, usage(0, 6401))
    expect(digestOf('a').learned).toMatchObject({ restarts: 0, silentMiss: null, cacheBlocks: null })
  })

  it('feedback from engines lowers the capacity of an engine that evicts earlier than predicted', () => {
    const { serve, digestOf } = open({ engines: [engine('a', { cacheBlocks: 10_000 })] })
    // The engine keeps 1,000 blocks: the last ten of twenty prompts of 100 blocks.
    const kept: number[] = []
    for (let round = 0; round < 400; round++) {
      const name = (round * 7) % 20
      const hit = kept.includes(name)
      serve([name, ...range(0, 99)], usage(hit ? 6400 : 0, 6401))
      if (hit) kept.splice(kept.indexOf(name), 1)
      kept.push(name)
      if (kept.length > 10) kept.shift()
      // This prompt is always cached, so the misses do not look like a restart.
      serve(['always', ...range(0, 20)], usage(round === 0 ? 0 : 1344, 1345))
    }
    const { cacheBlocks } = digestOf('a').learned!
    expect(cacheBlocks).toBeLessThan(2100)
    expect(cacheBlocks).toBeGreaterThan(300)
  })

  it.each([2.9, 4, 4.6, 6])(
    'feedback from engines is compared in tokens where prompts are measured in bytes, %d of which make one',
    (bytesPerToken) => {
      const { serve, digestOf } = open({ engines: [engine('a', { cacheBlocks: 50_000 })] })
      const tokens = (blocks: number) => Math.ceil((blocks * 256 + 100) / bytesPerToken)
      for (const talk of range(0, 40)) {
        for (const turn of range(0, 5)) {
          const content = [`talk ${talk}`, ...range(0, 20 + 15 * turn)]
          const cachedTokens = turn === 0 ? 0 : tokens(6 + 15 * turn)
          const { decision } = serve(content, usage(cachedTokens, tokens(content.length)), {
            tokenSource: 'bytes',
            promptTokens: tokens(content.length),
          })
          expect(Math.abs(decision.predictedCachedTokens! - cachedTokens)).toBeLessThanOrEqual(0.05 * cachedTokens)
        }
      }
      expect(digestOf('a').learned!.cacheBlocks).toBeNull()
    },
  )

  it('feedback from engines is compared in blocks of the engine, which may be larger than the pool’s', () => {
    const { state, serve, digestOf } = open({ engines: [engine('a', { cacheBlocks: 50_000 })] })
    state.observe([probe('a', 0, { stats: stats({ blockTokens: 528 }) })], 0)
    for (const talk of range(0, 40)) {
      serve([talk, ...range(0, 9)], usage(0))
      expect(serve([talk, ...range(0, 30)], usage(528, 1985)).decision.predictedCachedTokens).toBe(528)
    }
    expect(digestOf('a').learned!.cacheBlocks).toBeNull()
  })

  it('feedback from engines is limited to the prompt’s length', () => {
    const { serve, digestOf } = open({ engines: [engine('a')] })
    serve(range(0, 10), usage(1e12))
    expect(digestOf('a').learned!.actualCachedTokens).toBeLessThanOrEqual(641)
  })

  it('feedback from engines does not override a newly configured cache size or block size', () => {
    const { state, serve, digestOf } = open({ engines: [engine('a', { cacheBlocks: 400 })] })
    for (const prompt of range(0, 8)) serve([`p${prompt}`, ...range(0, 99)])
    expect(digestOf('a')).toMatchObject({ cachedBlocks: 400, cacheBlocks: 400 })
    state.configure(
      2,
      pool({ policy: predicted, engines: [engine('a', { cacheBlocks: 150 })], indexEntries: 100_000 }),
      0,
    )
    expect(digestOf('a')).toMatchObject({ cachedBlocks: 150, cacheBlocks: 150 })
    state.observe([probe('a', 0, { stats: stats({ blockTokens: 16, cacheBlocks: 800 }) })], 0)
    expect(digestOf('a')).toMatchObject({ cacheBlocks: 150 })
    state.configure(3, pool({ policy: predicted, engines: [engine('a')], indexEntries: 100_000, blockTokens: 32 }), 0)
    expect(digestOf('a')).toMatchObject({ cachedBlocks: 0, cacheBlocks: 400 })
  })

  it('feedback from engines never raises the capacity above the declared size', () => {
    const capacity = new CacheCapacity()
    capacity.declare(1000)
    capacity.shrink(1, 1000)
    expect(capacity.blocks).toBe(920)
    for (let hit = 0; hit < 200; hit++) capacity.confirm(capacity.blocks)
    expect([capacity.blocks, capacity.learned]).toEqual([1000, null])
  })

  it('feedback from engines measures each engine’s speed, and a slow one gets less work', () => {
    const { admit, state, clock, finish, digestOf } = open({ engines: engines('fast', 'slow') })
    const paceS = { fast: 0.0001, slow: 0.0005 } as Record<string, number>
    const given: string[] = []
    for (const at of range(0, 300)) {
      const { key, engine: id } = admit(range(0, 60).map((block) => `${at}/${block}`))
      given.push(id)
      clock.now += 3841 * paceS[id]! * 1000
      state.firstToken(key, { ttft: 3841 * paceS[id]! * 1000 }, clock.now)
      finish(key, usage(0, 3841))
    }
    expect(share(given.slice(100), 'fast')).toBeGreaterThan(0.8)
    const { costModel, samples } = digestOf('fast').learned!
    expect(samples).toBeGreaterThan(100)
    const seconds = costModel.fixedS + costModel.perTokenS * 3841 + (costModel.perPairS * 3841 ** 2) / 2
    expect(Math.abs(seconds / (3841 * 0.0001) - 1)).toBeLessThan(0.1)
  })

  it('feedback from engines includes short responses that are not streamed, but not long ones', () => {
    const { admit, finish, clock, digestOf } = open({ engines: [engine('a')] })
    const answer = (completionTokens: number) => {
      const { key } = admit([clock.now, ...range(0, 30)])
      clock.now += 900
      finish(key, { usage: { promptTokens: 1985, completionTokens, cachedTokens: 0 } })
    }
    answer(500)
    expect(digestOf('a').learned!.samples).toBe(0)
    answer(1)
    const { costModel, samples } = digestOf('a').learned!
    expect(samples).toBe(1)
    expect(costModel.fixedS + costModel.perTokenS * 1985 + (costModel.perPairS * 1985 ** 2) / 2).toBeCloseTo(0.9, 1)
  })

  it('feedback from engines applies the cost model of one engine to another without samples', () => {
    const { serve, digestOf } = cluster
    const { engine: id } = serve(range(0, 30))
    const others = four.filter((one) => one !== id)
    expect(digestOf(id).learned!.samples).toBe(1)
    for (const other of others)
      expect(digestOf(other).learned).toMatchObject({ samples: 0, costModel: digestOf(id).learned!.costModel })
  })
})

describe('new engines', () => {
  it('start with reduced traffic', () => {
    const { state, clock, admit, digestOf } = cluster
    clock.now = 3_600_000
    state.configure(2, pool({ policy: predicted, engines: engines(...four, 'new'), indexEntries: 100_000 }), clock.now)
    expect(digestOf('new').learned!.warmth).toBe(0)
    expect(digestOf('a').learned!.warmth).toBe(1)
    expect(range(0, 5).map((at) => admit([`x${at}`, ...range(0, 30)], { configVersion: 2 }).engine)).not.toContain(
      'new',
    )
    clock.now += 30_000
    expect(digestOf('new').learned!.warmth).toBe(1)
  })
})

describe('adapters', () => {
  it('adapters are sent to engines that have them loaded, then to engines with free slots', () => {
    const { state, clock, admit } = cluster
    state.observe(
      [
        probe('a', 0, loaded([], 1)),
        probe('b', 0, loaded(['lora'], 1)),
        probe('c', 0, loaded([], 1)),
        probe('d', 0, loaded([], 1)),
      ],
      clock.now,
    )
    expect(admit(['x'], { adapter: 'lora' }).engine).toBe('b')
    const other = range(0, 3).map((at) => admit([`y${at}`], { adapter: `other ${at}` }).engine)
    expect([...other].sort()).toEqual(['a', 'c', 'd'])
    expect(admit(['z'], { adapter: 'other 1' }).engine).toBe(other[1])
  })
})

describe('a snapshot', () => {
  it('a snapshot keeps estimators in a small size, and drops the index', () => {
    const { state, serve, clock } = cluster
    for (const at of range(0, 12)) serve([`p${at}`, ...range(0, 60)], usage(null, 3905))
    const snapshot = structuredClone(state.snapshot(clock.now)!)
    expect(JSON.stringify(snapshot.estimators).length).toBeLessThan(300 * four.length)
    const again = new PoolState({ random: () => 0, epoch: 'f' })
    again.restore(snapshot, clock.now)
    const costModelOf = (one: PoolState) => one.digest(clock.now).engines.map(({ learned }) => learned!.costModel)
    expect(costModelOf(again)).toEqual(costModelOf(state))
  })

  it('a snapshot keeps a slow engine’s estimate across two snapshots and responses of another engine', () => {
    const { state, admit, clock } = open({ engines: engines('a', 'b'), policy: { name: 'round_robin', options: {} } })
    const serveOn = (one: PoolState, request: { readonly key: string; readonly engine: string }) => {
      clock.now += request.engine === 'a' ? 5000 : 500
      one.firstToken(request.key, {}, clock.now)
      one.release(request.key, outcome(usage(0, 3001)), clock.now)
    }
    for (const at of range(0, 12)) serveOn(state, admit([], { promptTokens: 3001, id: `before-${at}` }))
    const down = (one: PoolState) => {
      const next = new PoolState({ random: () => 0, epoch: 'f' })
      next.restore(structuredClone(one.snapshot(clock.now)!), clock.now)
      return next
    }
    const again = down(down(state))
    const answer = again.admit(admission({ id: 'after', promptTokens: 3001, avoid: ['a'] }), clock.now)
    serveOn(again, { key: 'after#0', engine: 'b' })
    expect(answer).toMatchObject({ key: 'after#0' })
    const [slow, quick] = again.digest(clock.now).engines.map(({ learned }) => learned!.costModel.perTokenS)
    expect(slow! / quick!).toBeGreaterThan(5)
  })

  it('a snapshot restores live bookings, which release exactly', () => {
    const { state, admit, clock } = cluster
    const running = range(0, 9).map((at) => admit([`p${at}`, ...range(0, 60)]))
    state.firstToken(running[0]!.key, {}, clock.now)
    state.progress(running[0]!.key, 5, clock.now)
    // An earlier total that arrives late.
    state.progress(running[0]!.key, 4, clock.now)
    const again = new PoolState({ random: () => 0, epoch: 'f' })
    again.restore(structuredClone(state.snapshot(clock.now)!), clock.now)
    const load = (one: PoolState) =>
      one.digest(clock.now).engines.map(({ activeBlocks, requests }) => ({ activeBlocks, requests }))
    expect(load(again)).toEqual(load(state))
    for (const { key } of running) again.release(key, outcome(), clock.now)
    for (const one of again.digest(clock.now).engines)
      expect(one).toMatchObject({ activeBlocks: 0, requests: 0, queuedPrefillS: 0 })
  })

  it('a snapshot keeps pending prefills although later ones have ended', () => {
    const { state, admit, clock } = open({ engines: engines('a') })
    const waiting = admit(range(0, 900))
    const queued = state.digest(clock.now).engines[0]!
    const decoding = admit(range(1000, 1900))
    const again = new PoolState({ random: () => 0, epoch: 'f' })
    state.firstToken(decoding.key, {}, clock.now)
    again.restore(structuredClone(state.snapshot(clock.now)!), clock.now)
    expect(again.digest(clock.now).engines[0]).toMatchObject({
      queuedPrefillS: queued.queuedPrefillS,
      queuedPrefillTokens: queued.queuedPrefillTokens,
    })
    again.firstToken(waiting.key, {}, clock.now + 100)
    expect(again.digest(clock.now + 100).engines[0]).toMatchObject({ queuedPrefillS: 0, queuedPrefillTokens: 0 })
  })

  it.each([
    ['no number', { costModel: { fixedS: NaN, perTokenS: 1, perPairS: 0 }, decodeLogPace: 0, capacityBlocks: null }],
    [
      'a negative price',
      { costModel: { fixedS: 0, perTokenS: -1, perPairS: 0 }, decodeLogPace: 0, capacityBlocks: null },
    ],
    ['no room at all', { costModel: null, decodeLogPace: 0, capacityBlocks: 0 }],
    ['an endless pace', { costModel: null, decodeLogPace: Infinity, capacityBlocks: null }],
    ['nothing', null],
  ])('a snapshot with %s restores no estimators of that engine', (_, broken) => {
    const { state, clock } = open({ engines: engines('a') })
    const snapshot = structuredClone(state.snapshot(clock.now)!)
    const learned = ({ estimators }: PoolSnapshot) => estimators as { engines: Record<string, unknown> }
    const sound = structuredClone(learned(snapshot).engines)
    learned(snapshot).engines = { a: broken }
    const again = new PoolState({ random: () => 0, epoch: 'f' })
    again.restore(snapshot, clock.now)
    expect(learned(again.snapshot(clock.now)!).engines).toEqual(sound)
  })

  it('a snapshot ignores first-token times of restored bookings, whose start is unknown', () => {
    const { state, admit, clock } = open({ engines: engines('a') })
    const [waiting, decoding, silent] = [admit(range(0, 900)), admit(range(1000, 1900)), admit(range(2000, 2900))]
    state.firstToken(decoding.key, { ttft: 9000 }, clock.now)
    const again = new PoolState({ random: () => 0, epoch: 'f' })
    again.restore(structuredClone(state.snapshot(clock.now)!), clock.now)
    const learned = () => again.snapshot(clock.now)!.estimators
    const before = learned()
    again.firstToken(waiting.key, { ttft: 9000 }, clock.now + 50)
    for (const { key } of [waiting, decoding, silent])
      again.release(
        key,
        outcome({ usage: { promptTokens: 57_601, completionTokens: key === silent.key ? 2 : 5000, cachedTokens: 0 } }),
        clock.now + 60,
      )
    expect(again.digest(clock.now + 60).engines[0]!.learned).toMatchObject({
      samples: 0,
      ttftError: null,
      actualCachedTokens: 0,
    })
    expect(learned()).toEqual(before)
  })
})
