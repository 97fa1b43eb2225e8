/** From an engine's cache to the gateway's prediction, without sockets: what a bridge carries, and nothing else. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ClusterState } from '../../src/core/cluster/cluster-state.ts'
import { EventStream } from '../../src/core/kv-events/event-stream.ts'
import { PromptMeter } from '../../src/core/tokens/measure.ts'
import { blockKeys } from '../../src/simulator/block-keys.ts'
import type { CacheChange } from '../../src/simulator/cache-journal.ts'
import { EngineModel } from '../../src/simulator/engine-model.ts'
import { batchBytes } from '../../src/simulator/kv-event-bytes.ts'
import { wireEvents } from '../../src/simulator/kv-events.ts'
import { profileNamed } from '../../src/simulator/profiles.ts'
import { admission, engines, outcome, pool, probe, stats } from '../contracts/cluster-fixtures.ts'

const ENGINE_BLOCK = 16

interface Ask {
  readonly conversation: number
  readonly tokens: number
  readonly salted: boolean
}

/** One engine with room for a few prompts, the stream of its events, and the books of a gateway. */
function world(blockTokens: number) {
  const profile = profileNamed('test')
  const stream = new EventStream({ pool: { model: 'qwen', blockTokens }, limits: { stepBlocks: 7, waitingBlocks: 1000 }, replays: true })
  const state = new ClusterState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ blockTokens, engines: engines('a') }), 0)
  state.observe([probe('a', 0, { stats: stats({ blockTokens: ENGINE_BLOCK }) })], 0)
  stream.replayed([], 0)
  let seq = 0
  const tell = (now: number) => {
    while (stream.log.isDue) {
      const delta = stream.delta(now)
      expect(state.feed([{ engine: 'a', epoch: 1, validMs: 60_000, blockTokens, ...delta }], now)).toEqual(['ok'])
      stream.log.taken()
    }
  }
  const cached = (changes: readonly CacheChange[], at: number) => {
    stream.published({ seq: seq++, payload: batchBytes(at, wireEvents(changes, ENGINE_BLOCK), seq % 2 === 0 ? 'maps' : 'arrays') })
  }
  const model = new EngineModel({ limits: { ...profile.limits, blockTokens: ENGINE_BLOCK, cacheBlocks: 60, maxModelLen: 960 }, law: profile.law }, { cached })
  const meter = new PromptMeter({ model: 'qwen', blockTokens, encodeUtf8: () => 0, now: () => 0, tokenizer: null, template: null })
  let now = 0
  const ask = ({ conversation, tokens, salted }: Ask): { readonly predicted: number; readonly cached: number } => {
    const salt = salted ? `salt ${conversation}` : null
    const prompt = Array.from({ length: tokens }, (_, at) => conversation * 1000 + (at >> 2))
    const { blocks } = meter.measure({ endpoint: 'completions', body: { prompt }, bodyBytes: 0, adapter: null, salts: salt === null ? [] : [salt], tenant: null })
    const answer = state.admit(admission({ blocks, promptTokens: tokens }), now)
    if ('refusal' in answer) throw new Error(answer.refusal.detail)
    const all = Uint32Array.from([...prompt, 5, 6, 7, 8])
    const sequence = model.submit({ promptTokens: tokens, outputTokens: 4, blocks: blockKeys(all, ENGINE_BLOCK, salt ?? ''), content: { tokens: all, salt, adapter: null } }, now)
    while (!sequence.ended) model.advance((now = model.nextEventAt()))
    state.firstToken(answer.key, {}, now)
    state.release(answer.key, outcome(), now)
    tell(now)
    return { predicted: state.explain(answer.key)?.predictedCachedTokens ?? -1, cached: sequence.cachedTokens }
  }
  tell(0)
  return { ask, stream, model }
}

const asks = fc.array(
  fc.record({ conversation: fc.integer({ min: 0, max: 4 }), tokens: fc.integer({ min: 1, max: 500 }), salted: fc.boolean() }),
  { minLength: 5, maxLength: 40 },
)

describe('a gateway fed by an engine’s events', () => {
  it('predicts to the token what the engine finds in its cache, whatever is asked in whatever order', () => {
    let hits = 0
    let evictions = 0
    fc.assert(
      fc.property(asks, (list) => {
        const { ask, stream, model } = world(ENGINE_BLOCK)
        for (const one of list) {
          const { predicted, cached } = ask(one)
          expect(predicted).toBe(cached)
          if (cached > 0) hits += 1
        }
        // Prompts of whole blocks leave two copies of their last one.
        expect(stream.log.size).toBeLessThanOrEqual(model.pool.namedCount)
        evictions += model.pool.evictions
      }),
      { numRuns: 150 },
    )
    expect([hits > 200, evictions > 1000]).toEqual([true, true])
  })

  it('predicts no more than is there and less than a block short, where a block of its own is several of the engine’s', () => {
    fc.assert(
      fc.property(asks, (list) => {
        const { ask } = world(ENGINE_BLOCK * 4)
        for (const one of list) {
          const { predicted, cached } = ask(one)
          expect(predicted).toBeLessThanOrEqual(cached)
          expect(cached - predicted).toBeLessThan(ENGINE_BLOCK * 4)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('believes no more of a prompt that was there, was asked for again, and is told to be gone', () => {
    // The repeat changes nothing that is told: the first thing heard after it is that the prompt was evicted.
    for (const [blockTokens, list] of [
      [ENGINE_BLOCK, [[4, 256], [4, 256], [1, 900], [4, 257]]],
      [ENGINE_BLOCK * 4, [[0, 192], [4, 256], [4, 256], [0, 206], [1, 481], [0, 14], [2, 142], [4, 65]]],
    ] as const) {
      const { ask } = world(blockTokens)
      for (const [conversation, tokens] of list) {
        const { predicted, cached } = ask({ conversation, tokens, salted: false })
        expect(predicted, `${conversation}: ${tokens} of ${blockTokens}`).toBeLessThanOrEqual(cached)
      }
    }
  })
})
