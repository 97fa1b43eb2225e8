/** Effect of engines' KV events on every implementation of the Cluster port. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Outcome } from '../../src/core/contract/outcome.ts'
import type { KvEventDelta } from '../../src/core/kv-events/event-delta.ts'
import { chain, range } from '../core/prefix-index/block-chains.ts'
import { admitted, type OpenCluster, type Source } from './cluster.ts'
import { admission, engines, outcome, pool, probe, stats } from '../kit/pool-fixtures.ts'

const BLOCK_TOKENS = 64
const NONE = new Uint32Array(0)
const usage = (cachedTokens: number): Partial<Outcome> => ({
  usage: { promptTokens: 641, completionTokens: 20, cachedTokens },
})

export function kvFeedContract(name: string, open: (source: Source) => Promise<OpenCluster>): void {
  let opened: OpenCluster
  let seq = 0

  beforeEach(async () => {
    seq = 0
    opened = await open({
      version: 1,
      pool: pool({ policy: { name: 'prefix', options: {} }, engines: engines('a', 'b'), indexEntries: 10_000 }),
    })
  })
  afterEach(() => opened.close())

  const step = (changes: Partial<KvEventDelta> = {}): KvEventDelta => ({
    engine: 'a',
    epoch: 1,
    seq: (seq += 1),
    reset: seq === 1,
    complete: true,
    validMs: 15_000,
    blockTokens: BLOCK_TOKENS,
    lagMs: 5,
    stored: NONE,
    removed: NONE,
    ...changes,
  })
  const feed = (...steps: readonly KvEventDelta[]) => opened.cluster.kvEvents!.feed(steps)
  const tell = (changes: Partial<KvEventDelta> = {}) => feed(step(changes))
  const requestOf = (content: readonly (string | number)[]) =>
    admission({ blocks: chain(content), promptTokens: content.length * BLOCK_TOKENS + 1 })
  /** Estimated tokens of the prompt that each engine has cached. */
  const cached = async (content: readonly (string | number)[]): Promise<Record<string, number>> => {
    const ranked = await opened.cluster.decisions!.dryRun(requestOf(content))
    if ('refusal' in ranked) throw new Error(ranked.refusal.detail)
    return Object.fromEntries(
      ranked.decision.candidates.map(({ engine, terms }) => [engine, terms['cached_tokens'] ?? -1]),
    )
  }
  /** Serves the prompt on engine a, from its booking to its end. */
  const serve = async (content: readonly (string | number)[], end: Partial<Outcome> = {}): Promise<void> => {
    const { lease } = await admitted(opened.cluster.admit({ ...requestOf(content), avoid: ['b'] }))
    await lease.firstToken({ ttft: 100 })
    await lease.release(outcome(end))
  }

  describe(`${name}: KV events`, () => {
    it('KV events make the engine’s cache known exactly', async () => {
      expect(await tell({ stored: chain(range(0, 7)) })).toEqual(['ok'])
      expect(await cached(range(0, 10))).toEqual({ a: 7 * BLOCK_TOKENS, b: 0 })
      expect(await tell({ removed: chain(range(0, 7)).slice(10) })).toEqual(['ok'])
      expect(await cached(range(0, 10))).toEqual({ a: 5 * BLOCK_TOKENS, b: 0 })
    })

    it('override earlier estimates', async () => {
      await serve(range(0, 8))
      expect(await cached(range(0, 8))).toMatchObject({ a: 8 * BLOCK_TOKENS })
      await tell({ stored: chain(range(0, 3)) })
      expect(await cached(range(0, 8))).toMatchObject({ a: 3 * BLOCK_TOKENS })
    })

    it('KV events leave the blocks of a finished prompt estimated until events report them', async () => {
      await tell()
      await serve(range(0, 8))
      await serve(range(100, 105))
      await tell({ stored: chain(range(900, 910)) })
      expect(await cached(range(0, 8))).toMatchObject({ a: 8 * BLOCK_TOKENS })
      await tell({ stored: chain(range(0, 8)) })
      await tell({ removed: chain(range(0, 8)).slice(8) })
      expect(await cached(range(0, 8))).toMatchObject({ a: 4 * BLOCK_TOKENS })
      expect(await cached(range(100, 105))).toMatchObject({ a: 5 * BLOCK_TOKENS })
    })

    it('KV events are not waited for long', async () => {
      await tell()
      await serve(range(0, 8))
      await tell()
      await opened.advance(1_000)
      await tell()
      expect(await cached(range(0, 8))).toMatchObject({ a: 0 })
    })

    it('KV events are awaited for one missing prompt no longer than for many', async () => {
      await tell()
      for (let first = 0; first < 50; first += 10) await serve(range(first, first + 8))
      await tell()
      await opened.advance(1_000)
      await tell()
      for (let first = 0; first < 50; first += 10) expect(await cached(range(first, first + 8))).toMatchObject({ a: 0 })
    })

    it('KV events remove blocks that events had removed, even if they were requested again without an event', async () => {
      await tell({ stored: chain(range(0, 8)) })
      await serve(range(0, 8))
      await serve(range(0, 8))
      await tell({ stored: chain(range(100, 108)), removed: chain(range(0, 8)).slice(8) })
      expect(await cached(range(0, 8))).toMatchObject({ a: 4 * BLOCK_TOKENS })
    })

    it('KV events remove them at once behind a prompt that is still awaited', async () => {
      await tell({ stored: chain(range(0, 8)) })
      await serve(range(50, 58))
      await serve(range(0, 8))
      await tell({ removed: chain(range(0, 8)).slice(8) })
      await tell({ stored: chain(range(50, 58)) })
      expect(await cached(range(0, 8))).toMatchObject({ a: 4 * BLOCK_TOKENS })
      expect(await cached(range(50, 58))).toMatchObject({ a: 8 * BLOCK_TOKENS })
    })

    it('KV events remove them from a request that never started its prefill', async () => {
      await tell({ stored: chain(range(0, 8)) })
      const { lease } = await admitted(opened.cluster.admit({ ...requestOf(range(0, 8)), avoid: ['b'] }))
      await lease.release(outcome({ result: 'client_gone' }))
      await tell({ removed: chain(range(0, 8)).slice(8) })
      expect(await cached(range(0, 8))).toMatchObject({ a: 4 * BLOCK_TOKENS })
    })

    it('KV events leave a request that runs its blocks, which its siblings will find', async () => {
      await tell()
      const { lease } = await admitted(opened.cluster.admit({ ...requestOf(range(0, 8)), avoid: ['b'] }))
      for (let second = 0; second < 4; second++) {
        await opened.advance(1_000)
        await tell()
      }
      expect(await cached(range(0, 8))).toMatchObject({ a: 8 * BLOCK_TOKENS })
      await lease.release(outcome({ result: 'client_gone' }))
      expect(await cached(range(0, 8))).toMatchObject({ a: 0 })
    })

    it('KV events only add to the estimate while the snapshot is incomplete', async () => {
      await serve(range(0, 8))
      await tell({ complete: false, stored: chain(['other', 1, 2]) })
      for (let second = 0; second < 3; second++) {
        await opened.advance(1_000)
        await tell({ complete: false })
      }
      expect(await cached(range(0, 8))).toMatchObject({ a: 8 * BLOCK_TOKENS })
      expect(await cached(['other', 1, 2])).toMatchObject({ a: 3 * BLOCK_TOKENS })
    })

    it('KV events are applied once, however often they come', async () => {
      const first = step({ stored: chain(range(0, 4)) })
      const second = step({ removed: chain(range(0, 4)).slice(6) })
      expect(await feed(first, second, second, first)).toEqual(['ok', 'ok', 'ok', 'ok'])
      expect(await cached(range(0, 4))).toMatchObject({ a: 3 * BLOCK_TOKENS })
      expect((await feedOf('a'))?.changes).toBe(5)
    })

    it('request a snapshot if a step is missing, and apply it', async () => {
      await tell({ stored: chain(range(0, 4)) })
      step()
      expect(await tell({ stored: chain(range(9, 12)) })).toEqual(['resync'])
      expect(await cached(range(9, 12))).toMatchObject({ a: 0 })
      expect(await tell({ reset: true, stored: chain(range(9, 12)) })).toEqual(['ok'])
      expect(await cached(range(9, 12))).toMatchObject({ a: 3 * BLOCK_TOKENS })
      expect(await cached(range(0, 4))).toMatchObject({ a: 0 })
    })

    it('request a snapshot after the object has lost its memory', async () => {
      await tell({ stored: chain(range(0, 4)) })
      await opened.forget()
      expect(await tell()).toEqual(['resync'])
      expect(await tell({ reset: true, stored: chain(range(0, 4)) })).toEqual(['ok'])
      expect(await cached(range(0, 4))).toMatchObject({ a: 4 * BLOCK_TOKENS })
    })

    it('KV events follow the later of two bridges while it speaks, and the other when it has fallen silent', async () => {
      await tell({ epoch: 2, reset: true, stored: chain(range(0, 4)) })
      expect(await feed(step({ epoch: 1, reset: true }))).toEqual(['stale'])
      await opened.advance(16_000)
      expect(await feed(step({ epoch: 1, reset: true, stored: chain(range(0, 2)) }))).toEqual(['ok'])
      expect(await cached(range(0, 4))).toMatchObject({ a: 2 * BLOCK_TOKENS })
    })

    it('KV events that stop leave their last snapshot and later estimates, and after a while only these', async () => {
      await tell({ stored: chain(range(0, 4)) })
      await opened.advance(16_000)
      expect((await feedOf('a'))?.state).toBe('silent')
      await serve(range(20, 26))
      expect(await cached(range(0, 4))).toMatchObject({ a: 4 * BLOCK_TOKENS })
      expect(await cached(range(20, 26))).toMatchObject({ a: 6 * BLOCK_TOKENS })
      await opened.advance(400_000)
      await opened.cluster.observe([probe('a', opened.now(), { stats: stats() })])
      expect(await cached(range(0, 4))).toMatchObject({ a: 0 })
      expect(await cached(range(20, 26))).toMatchObject({ a: 6 * BLOCK_TOKENS })
    })

    it('KV events are asked for a snapshot when they return after theirs was dropped', async () => {
      await tell({ stored: chain(range(0, 4)) })
      await opened.advance(400_000)
      await opened.cluster.observe([probe('a', opened.now(), { stats: stats() })])
      expect(await tell({ stored: chain(range(20, 22)) })).toEqual(['resync'])
      expect(await tell({ reset: true, stored: chain(range(0, 4)) })).toEqual(['ok'])
      expect(await tell({ stored: chain(range(20, 22)) })).toEqual(['ok'])
      expect(await cached(range(0, 4))).toMatchObject({ a: 4 * BLOCK_TOKENS })
    })

    it('KV events are asked for a snapshot after misses that looked like a restart while they were silent', async () => {
      await tell({ stored: chain(range(0, 10)) })
      await opened.advance(16_000)
      await serve(range(0, 10), usage(640))
      for (let miss = 0; miss < 3; miss++) await serve(range(0, 10), usage(0))
      expect(await tell()).toEqual(['resync'])
    })

    it('KV events are not overridden by misses that look like a restart or a smaller cache', async () => {
      await tell({ stored: chain(range(0, 10)) })
      await serve(range(0, 10), usage(640))
      for (let miss = 0; miss < 5; miss++) await serve(range(0, 10), usage(0))
      expect(await cached(range(0, 10))).toMatchObject({ a: 10 * BLOCK_TOKENS })
    })

    it('KV events count for a full hit less the block an engine computes again', async () => {
      await opened.cluster.observe([probe('a', opened.now(), { stats: stats({ blockTokens: 32 }) })])
      await tell({ stored: chain(range(0, 10)) })
      const ranked = await opened.cluster.decisions!.dryRun({
        ...requestOf(range(0, 10)),
        promptTokens: 10 * BLOCK_TOKENS,
      })
      expect(
        'decision' in ranked && ranked.decision.candidates.find(({ engine }) => engine === 'a')?.terms['cached_tokens'],
      ).toBe(10 * BLOCK_TOKENS - 32)
    })

    it('KV events are rejected for unknown engines and for other block sizes', async () => {
      expect(await feed(step({ engine: 'nobody' }), step({ blockTokens: 16, reset: true }))).toEqual([
        'unknown',
        'block_tokens',
      ])
      expect(await feedOf('a')).toBeUndefined()
    })

    it('KV events use at most the memory of the index, and are no longer complete then', async () => {
      expect(await tell({ stored: chain(range(0, 10_001)) })).toEqual(['ok'])
      expect((await feedOf('a'))?.state).toBe('partial')
      await tell({ removed: chain(range(0, 1)) })
      expect((await feedOf('a'))?.state).toBe('partial')
      await tell({ reset: true, stored: chain(range(0, 10)) })
      expect((await feedOf('a'))?.state).toBe('exact')
    })

    it('KV events appear in the digest with their position', async () => {
      expect(await feedOf('a')).toBeUndefined()
      await tell({ stored: chain(range(0, 4)), lagMs: 12 })
      expect(await feedOf('a')).toEqual({ state: 'exact', changes: 4, resyncs: 1, lagMs: 12 })
    })
  })

  const feedOf = async (id: string) => (await opened.cluster.digest()).engines.find((one) => one.id === id)?.kvFeed
}
