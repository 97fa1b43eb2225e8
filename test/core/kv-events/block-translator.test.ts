import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BlockTranslator } from '../../../src/core/kv-events/block-translator.ts'
import { readEventBatch } from '../../../src/core/kv-events/event-batch.ts'
import { PromptAnalyzer } from '../../../src/core/tokens/prompt-analyzer.ts'
import type { WireEvent } from '../../../packages/simulator/src/kv-event-bytes.ts'
import { cleared, framed, removed, span, stored, type StoredBlocks } from './events.ts'

const name = (lo: number, hi: number) => `${lo}:${hi}`

function translator(blockTokens = 16) {
  const held = new Map<string, number>()
  const add = (key: string, by: number) => {
    const count = (held.get(key) ?? 0) + by
    if (count === 0) held.delete(key)
    else held.set(key, count)
  }
  const own = new BlockTranslator(
    { model: 'qwen', blockTokens },
    { hold: (lo, hi) => add(name(lo, hi), 1), drop: (lo, hi) => add(name(lo, hi), -1), clear: () => held.clear() },
  )
  const tell = (...events: WireEvent[]) => {
    for (const event of readEventBatch(framed(0, events).payload).events) own.apply(event)
  }
  return { own, held, tell }
}

/** Block hashes of a prompt, computed by the gateway. */
function measured(
  prompt: readonly number[],
  { blockTokens = 16, salt = null as string | null, adapter = null as string | null } = {},
): string[] {
  const analyzer = new PromptAnalyzer({
    model: 'qwen',
    blockTokens,
    encodeUtf8: () => 0,
    now: () => 0,
    tokenizer: null,
    template: null,
  })
  const { blocks } = analyzer.measure({
    prompt: { form: 'ids', lists: [prompt] },
    bodyBytes: 0,
    adapter,
    salts: salt === null ? [] : [salt],
    tenant: null,
  })
  return Array.from({ length: blocks.length / 2 }, (_, at) => name(blocks[at * 2]!, blocks[at * 2 + 1]!))
}

describe('BlockTranslator', () => {
  it('BlockTranslator computes the same hashes as the gateway for the same prompt', () => {
    const { held, tell } = translator()
    tell(stored({ prompt: span(5, 50), blockTokens: 16 }))
    expect([...held.keys()]).toEqual(measured(span(5, 50)))
  })

  it('BlockTranslator continues a prompt from an earlier event, in any batch', () => {
    const { held, tell } = translator()
    const prompt = { prompt: span(5, 96), blockTokens: 16 }
    tell(stored({ ...prompt, prompt: span(5, 48) }))
    tell(stored({ ...prompt, from: 3 }))
    expect([...held.keys()]).toEqual(measured(span(5, 96)))
  })

  it('BlockTranslator separates salts and adapters as the gateway does', () => {
    const { held, tell } = translator()
    const base = { prompt: span(5, 48), blockTokens: 16 }
    tell(
      stored({ ...base, salt: 'pepper' }),
      stored({ ...base, adapter: 'french' }),
      stored({ ...base, adapter: 'french', salt: 'french' }),
    )
    const expected = [{ salt: 'pepper' }, { adapter: 'french' }, { adapter: 'french', salt: 'french' }].flatMap(
      (scope) => measured(span(5, 48), scope),
    )
    expect([...held.keys()].sort()).toEqual(expected.sort())
    expect(new Set(expected).size).toBe(9)
  })

  it('BlockTranslator reads a salt given as a tagged pair', () => {
    const { held, tell } = translator()
    const event = stored({ prompt: span(5, 16), blockTokens: 16 })
    tell({ ...event, extra_keys: [[['cache_salt', 'pepper']]] } as WireEvent)
    expect([...held.keys()]).toEqual(measured(span(5, 16), { salt: 'pepper' }))
  })

  it('BlockTranslator does not translate blocks with multimodal keys, nor their successors', () => {
    const { own, held, tell } = translator()
    const event = stored({ prompt: span(5, 64), blockTokens: 16 })
    tell({ ...event, extra_keys: [null, [['picture', 3]], null, null] } as WireEvent)
    tell({ ...stored({ prompt: span(900, 16), blockTokens: 16 }), extra_keys: [[['picture', 3]]] } as WireEvent)
    tell(stored({ prompt: span(5, 80), from: 4, blockTokens: 16 }))
    expect([...held.keys()]).toEqual(measured(span(5, 16)))
    expect(own.unnamed).toBe(5)
  })

  it('BlockTranslator does not translate blocks whose ancestors are unknown', () => {
    const { own, held, tell } = translator()
    tell(stored({ prompt: span(5, 64), from: 2, blockTokens: 16 }))
    expect(held.size).toBe(0)
    expect(own.unnamed).toBe(2)
  })

  it('BlockTranslator keeps a block until its last copy is removed', () => {
    const { held, tell } = translator()
    const prompt = { prompt: span(5, 16), blockTokens: 16 }
    tell(stored(prompt), stored(prompt), removed(prompt, 0))
    expect(held.size).toBe(1)
    tell(removed(prompt, 0))
    expect(held.size).toBe(0)
  })

  it('BlockTranslator ignores blocks in CPU memory or on disk', () => {
    const { held, tell } = translator()
    const prompt = { prompt: span(5, 32), blockTokens: 16 }
    tell(stored({ ...prompt, medium: 'CPU' }))
    expect(held.size).toBe(0)
    tell(stored({ ...prompt, medium: null }), removed({ ...prompt, medium: 'CPU' }, 1))
    expect(held.size).toBe(2)
  })

  it('BlockTranslator follows one KV cache group if a model has several', () => {
    const { held, tell } = translator()
    const prompt = { prompt: span(5, 32), blockTokens: 16 }
    tell(stored(prompt), stored({ ...prompt, prompt: span(800, 32), group: 1 }), removed({ ...prompt, group: 1 }, 0))
    expect([...held.keys()]).toEqual(measured(span(5, 32)))
  })

  it('BlockTranslator follows the group with full attention, also if a sliding-window group was reported first', () => {
    const { own, held, tell } = translator(32)
    tell(
      stored({ prompt: span(5, 64), blockTokens: 16, attention: 'sliding_window' }),
      stored({ prompt: span(5, 64), blockTokens: 32, group: 1, attention: 'full_attention' }),
    )
    expect([own.engineBlockTokens, own.fits]).toEqual([32, true])
    expect([...held.keys()]).toEqual(measured(span(5, 64), { blockTokens: 32 }))
  })

  it('BlockTranslator follows the first group with full attention among several groups', () => {
    for (const kinds of [
      ['sliding_window', 'full_attention'],
      ['full_attention', 'sliding_window'],
      ['mamba', 'sink_full_attention', 'full_attention'],
    ]) {
      const dense = kinds.findIndex((kind) => kind.includes('full'))
      const { held, tell } = translator()
      const prompt = { prompt: span(5, 64), blockTokens: 16 }
      for (const [group, attention] of kinds.entries()) tell(stored({ ...prompt, group, attention }))
      for (const group of kinds.keys()) if (group !== dense) tell(removed({ ...prompt, group }, 0))
      expect([...held.keys()], kinds.join()).toEqual(measured(span(5, 64)))
      tell(removed({ ...prompt, group: dense }, 3))
      expect([...held.keys()], kinds.join()).toEqual(measured(span(5, 48)))
    }
  })

  it('BlockTranslator follows the only group, whatever its attention', () => {
    const { held, tell } = translator()
    tell(stored({ prompt: span(5, 32), blockTokens: 16, attention: 'sliding_window' }))
    expect(held.size).toBe(2)
  })

  it('BlockTranslator reports a pool block only while every engine block in it is cached', () => {
    const { held, tell } = translator(64)
    const prompt = { prompt: span(5, 128), blockTokens: 16 }
    tell(stored(prompt))
    tell(removed(prompt, 1))
    expect([...held.keys()]).toEqual(measured(span(5, 128), { blockTokens: 64 }).slice(1))
    tell(removed(prompt, 4), removed(prompt, 7))
    expect(held.size).toBe(0)
    tell(stored({ ...prompt, prompt: span(5, 32), from: 1 }))
    expect([...held.keys()]).toEqual(measured(span(5, 64), { blockTokens: 64 }))
  })

  it('BlockTranslator combines several engine blocks into one pool block', () => {
    const { held, tell } = translator(64)
    tell(stored({ prompt: span(5, 100), blockTokens: 16 }))
    tell(stored({ prompt: span(5, 150), from: 6, blockTokens: 16 }))
    expect([...held.keys()]).toEqual(measured(span(5, 150), { blockTokens: 64 }))
  })

  it('BlockTranslator reports that the engine’s block size does not divide the pool’s', () => {
    const { own, held, tell } = translator(64)
    tell(stored({ prompt: span(5, 96), blockTokens: 48 }))
    expect([own.fits, own.engineBlockTokens, held.size]).toEqual([false, 48, 0])
  })

  it('BlockTranslator ignores partly filled blocks, which engines with finer hashes report', () => {
    const { own, held, tell } = translator(32)
    tell(stored({ prompt: span(5, 16), blockTokens: 16 }))
    tell(stored({ prompt: span(5, 64), blockTokens: 32 }))
    tell(stored({ prompt: span(900, 16), blockTokens: 16 }))
    expect([own.engineBlockTokens, own.fits]).toEqual([32, true])
    expect([...held.keys()]).toEqual(measured(span(5, 64), { blockTokens: 32 }))
  })

  it('BlockTranslator is empty after a clear event and accepts new blocks', () => {
    const { held, tell } = translator()
    tell(stored({ prompt: span(5, 64), blockTokens: 16 }), cleared)
    expect(held.size).toBe(0)
    tell(stored({ prompt: span(5, 32), blockTokens: 16 }))
    expect(held.size).toBe(2)
  })
})

type Step =
  | { readonly do: 'store'; readonly prompt: readonly number[]; readonly salt: string | null }
  | { readonly do: 'evict'; readonly which: number }
  | { readonly do: 'clear' }

const token = fc.integer({ min: 0, max: 2 })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('store' as const),
      prompt: fc.array(token, { maxLength: 14 }),
      salt: fc.constantFrom(null, 's'),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('evict' as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.constant({ do: 'clear' as const }) },
)

describe('BlockTranslator against a naive cache', () => {
  it.each([1, 2, 3])(
    'BlockTranslator holds exactly the blocks that the cache holds, %i of its own in each, after any history, duplicates and evictions in any order included',
    (ratio) => {
      fc.assert(
        fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
          const { held, tell } = translator(2 * ratio)
          // Physical blocks. Several can have the same content, if two requests computed it at the same time.
          let cache: { readonly what: StoredBlocks; readonly at: number; readonly name: string }[] = []
          for (const one of steps) {
            if (one.do === 'clear') {
              cache = []
              tell(cleared)
            } else if (one.do === 'evict') {
              if (cache.length === 0) continue
              const [gone] = cache.splice(one.which % cache.length, 1)
              tell(removed(gone!.what, gone!.at))
            } else {
              const what = { prompt: one.prompt, salt: one.salt, blockTokens: 2 }
              const names = measured(one.prompt, { blockTokens: 2, salt: one.salt })
              // Blocks are found in order from the first. The rest is computed, and always the last block.
              let from = names.findIndex((block) => cache.every((other) => other.name !== block))
              if (from < 0) from = Math.max(0, names.length - 1)
              if (from === names.length) continue
              for (const [at, block] of names.entries()) if (at >= from) cache.push({ what, at, name: block })
              tell(stored({ ...what, from }))
            }
            const there = new Set(cache.map((block) => block.name))
            const whole = cache.flatMap(({ what, at }) => {
              if ((at + 1) % ratio !== 0) return []
              const names = measured(what.prompt, { blockTokens: 2, salt: what.salt ?? null }).slice(
                at + 1 - ratio,
                at + 1,
              )
              return names.every((block) => there.has(block))
                ? [measured(what.prompt, { blockTokens: 2 * ratio, salt: what.salt ?? null })[(at + 1) / ratio - 1]!]
                : []
            })
            expect([...held.keys()].sort()).toEqual([...new Set(whole)].sort())
          }
        }),
        { numRuns: 300 },
      )
    },
  )
})
