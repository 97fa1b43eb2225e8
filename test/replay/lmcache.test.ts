import fc from 'fast-check'
import { expect, test } from 'vitest'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import type { JobListener } from '../../packages/replay/src/replay/replay-engine.ts'
import { LMCACHE_DEFAULTS, LmcacheStore } from '../../packages/replay/src/replay/lmcache-store.ts'
import { fleetOf, replay } from '../../packages/replay/src/replay/plan.ts'
import { inBlocksOf, withCacheTokens } from '../../packages/replay/src/replay/engine-profile.ts'
import { routerNamed } from '../../packages/replay/src/replay/routers.ts'
import { figuresOf } from '../../packages/replay/src/replay/statistics.ts'
import { keysOf } from '../../packages/replay/src/replay/trace.ts'
import { Job } from '../../packages/replay/src/replay/job.ts'
import { VllmEngine } from '../../packages/replay/src/replay/vllm-engine.ts'
import { multiRound } from '../../packages/replay/src/replay/workloads.ts'
import { idleTtftMs } from '../../packages/simulator/src/step-cost.ts'

const BLOCK = 512
const quiet: JobListener = { firstToken() {}, progress() {}, ended() {} }
const of = (blocks: number) => blocks * BLOCK

function job(ids: readonly number[], tail: number): Job {
  return new Job(0, {
    atMs: 0,
    promptTokens: of(ids.length) + tail,
    outputTokens: 1,
    blocks: keysOf(ids),
    session: null,
    chain: null,
    thinkMs: 0,
  })
}

/**
 * Two nodes with two blocks in memory (6 us per token) and four on disk (40 us); the directory is half a second late.
 */
function twoNodes(): LmcacheStore {
  return new LmcacheStore(2, BLOCK, { ...LMCACHE_DEFAULTS, hostTokens: of(2), diskTokens: of(4), reportMs: 500 })
}

test('each block is loaded from its fastest tier, and tiers evict the least recently used block, tails first', () => {
  const store = twoNodes()
  store.store(0, keysOf([1, 2, 3]), 0)
  // Two blocks from memory, the last from disk only.
  expect(store.loading(0, keysOf([1, 2, 3, 4]), 0)).toEqual({ tokens: of(3), ms: (512 * (6 + 6 + 40)) / 1000 })
  // Blocks in the engine's own cache are not loaded.
  expect(store.loading(0, keysOf([1, 2, 3, 4]), of(2))).toEqual({ tokens: of(3), ms: (512 * 40) / 1000 })
  expect(store.loading(0, keysOf([1, 2, 3]), of(3))).toBeNull()
  store.store(0, keysOf([7, 8]), 1000)
  expect(store.loading(0, keysOf([1, 2, 3]), 0)).toEqual({ tokens: of(2), ms: (512 * (40 + 40)) / 1000 })
})

test('a node reads its own tiers and the shared one, not another node’s', () => {
  const own = twoNodes()
  own.store(0, keysOf([1, 2]), 0)
  expect(own.loading(1, keysOf([1, 2]), 0)).toBeNull()
  const shared = new LmcacheStore(2, BLOCK, { ...LMCACHE_DEFAULTS, remoteTokens: of(10) })
  shared.store(0, keysOf([1, 2]), 0)
  expect(shared.loading(1, keysOf([1, 2, 3]), 0)).toEqual({ tokens: of(2), ms: (512 * (100 + 100)) / 1000 })
})

test('the directory is delayed for stored and evicted blocks', () => {
  const store = twoNodes()
  const prompt = keysOf([1, 2, 3])
  store.store(0, prompt, 0)
  expect(store.lookup(0, prompt, 499)).toEqual({ host: 0, disk: 0, remote: 0 })
  expect(store.lookup(0, prompt, 500)).toEqual({ host: 2, disk: 3, remote: 3 })
  expect(store.lookup(1, prompt, 500)).toEqual({ host: 0, disk: 0, remote: 0 })
  store.store(0, keysOf([7, 8]), 1000)
  expect(store.lookup(0, prompt, 1499)).toEqual({ host: 2, disk: 3, remote: 3 })
  expect(store.lookup(0, prompt, 1500)).toEqual({ host: 0, disk: 2, remote: 2 })
})

test('the directory equals the tiers without delay, after any history', () => {
  const prompts = fc.array(
    fc.record({
      node: fc.integer({ min: 0, max: 1 }),
      ids: fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 6 }),
    }),
    { maxLength: 40 },
  )
  fc.assert(
    fc.property(prompts, (stored) => {
      const store = new LmcacheStore(2, BLOCK, {
        ...LMCACHE_DEFAULTS,
        hostTokens: of(3),
        diskTokens: of(5),
        remoteTokens: of(7),
      })
      stored.forEach(({ node, ids }, at) => {
        store.store(node, keysOf(ids), at)
        for (const engine of [0, 1]) {
          const blocks = keysOf(ids)
          expect(store.lookup(engine, blocks, at).remote * BLOCK).toBe(store.loading(engine, blocks, 0)?.tokens ?? 0)
        }
      })
    }),
  )
})

const profile = inBlocksOf(BLOCK, profileNamed('agentic'))

test('an engine loads blocks from LMCache and computes the rest, as predicted, and they count as cached', () => {
  const { costModel, limits } = profile
  const store = twoNodes()
  store.store(0, keysOf([1, 2, 3]), 0)
  let firstAt = -1
  const engine = new VllmEngine(
    profile,
    { ...quiet, firstToken: (_, at) => (firstAt = at) },
    { externalCache: store.cacheOf(0) },
  )
  const own = job([1, 2, 3], 100)
  const ms = (512 * (6 + 6 + 40)) / 1000 + idleTtftMs(costModel, own.promptTokens, of(3), limits.maxNumBatchedTokens)
  expect(engine.exactTtftMs(own, 0)).toBeCloseTo(ms, 6)
  expect(engine.exactColdTtftMs(own, 0)).toBeCloseTo(
    idleTtftMs(costModel, own.promptTokens, 0, limits.maxNumBatchedTokens),
    6,
  )
  engine.submit(own, 0)
  engine.advance(1e6)
  expect(firstAt).toBeCloseTo(ms, 6)
  expect([own.cachedTokens, engine.computedTokens]).toEqual([of(3), 100])
})

test('the last token of a prompt is computed even if LMCache has all of it', () => {
  const store = twoNodes()
  store.store(0, keysOf([1, 2]), 0)
  let firstAt = -1
  const engine = new VllmEngine(
    profile,
    { ...quiet, firstToken: (_, at) => (firstAt = at) },
    { externalCache: store.cacheOf(0) },
  )
  const own = job([1, 2], 0)
  engine.submit(own, 0)
  engine.advance(1e6)
  const { stepMs, decodeSequenceMs, decodeContextTokenMs } = profile.costModel
  expect(firstAt).toBeCloseTo((512 * 12) / 1000 + stepMs + decodeSequenceMs + decodeContextTokenMs * of(2), 6)
  expect(own.cachedTokens).toBe(of(2) - 1)
})

const trace = multiRound({
  name: 'chats',
  users: 12,
  rounds: 5,
  systemTokens: 512,
  historyTokens: 6000,
  questionTokens: 700,
  answerTokens: 100,
  joinMs: 900,
  thinkMs: 6000,
  blockTokens: BLOCK,
  named: false,
})
/** GPU caches of three prompts: nearly all hits are outside the GPU. */
const small = fleetOf(3, { kind: 'vllm', profile: withCacheTokens(profileNamed('agentic'), 32_000) })
const pace = { speed: 1, closedLoop: true, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null }
const hitOf = (policy: string, lmcache?: Partial<typeof LMCACHE_DEFAULTS>) => {
  const fleet = lmcache === undefined ? small : { ...small, lmcache: { ...LMCACHE_DEFAULTS, ...lmcache } }
  return figuresOf(replay(trace, fleet, routerNamed(policy), pace), { ttftMs: 5000, itlMs: 100 }).hit
}

test('policies with lookups find blocks that the engines have evicted', () => {
  const lmcache = { hostTokens: 400_000 }
  expect(hitOf('kv_aware', lmcache)).toBeGreaterThan(0.75)
  expect(hitOf('kv_aware')).toBeLessThan(hitOf('kv_aware', lmcache) - 0.2)
  expect(hitOf('predicted', lmcache)).toBeGreaterThan(0.7)
  expect(hitOf('production_stack_kvaware', lmcache)).toBeGreaterThan(0.75)
})

test('a directory delayed beyond the next turn has no benefit', () => {
  const inTime = hitOf('kv_aware', { hostTokens: 400_000, reportMs: 200 })
  expect(hitOf('kv_aware', { hostTokens: 400_000, reportMs: 600_000 })).toBeLessThan(inTime - 0.15)
})

test('a store shared by all engines makes the choice of engine almost irrelevant', () => {
  expect(hitOf('round_robin', { hostTokens: 400_000 })).toBeLessThan(0.6)
  expect(hitOf('round_robin', { remoteTokens: 4_000_000 })).toBeGreaterThan(0.75)
})
