import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KvEventIndex } from '../../../src/core/prefix-index/kv-event-index.ts'
import { PrefixIndex } from '../../../src/core/prefix-index/prefix-index.ts'
import { chain, range } from './block-chains.ts'

const engine = fc.constantFrom(0, 1, 31, 32, 70)
const block = fc.integer({ min: 1, max: 60 })
const step = fc.oneof(
  { weight: 20, arbitrary: fc.record({ do: fc.constantFrom('hold' as const, 'drop' as const), engine, block }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('clear' as const), engine, block }) },
)

describe('KvEventIndex', () => {
  it('KvEventIndex equals one set of blocks per engine after any history', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 200 }),
        fc.array(fc.array(block, { maxLength: 6 }), { minLength: 5, maxLength: 5 }),
        (steps, prompts) => {
          const own = new KvEventIndex()
          const naive = new Map([0, 1, 31, 32, 70].map((number) => [number, new Set<number>()]))
          for (const { do: what, engine: at, block: name } of steps) {
            if (what === 'clear') {
              own.clear(at)
              naive.get(at)!.clear()
            } else {
              own.set(at, name, name * 7, what === 'hold')
              if (what === 'hold') naive.get(at)!.add(name)
              else naive.get(at)!.delete(name)
            }
          }
          expect(own.entries).toBe([...naive.values()].reduce((sum, held) => sum + held.size, 0))
          for (const prompt of prompts) {
            own.match(Uint32Array.from(prompt.flatMap((name) => [name, name * 7])), prompt.length)
            for (const [at, held] of naive) {
              const end = prompt.findIndex((name) => !held.has(name))
              expect(own.reach[at] ?? 0).toBe(end < 0 ? prompt.length : end)
              expect(own.count(at)).toBe(held.size)
            }
          }
        },
      ),
      { numRuns: 300 },
    )
  })

  it('KvEventIndex finds every block of a large cache, and reuses the memory of removed blocks', () => {
    const own = new KvEventIndex()
    const blocks = chain(range(0, 20_000))
    own.setAll(3, blocks, true)
    own.match(blocks, 20_000)
    expect(own.reach[3]).toBe(20_000)
    const { bytes } = own
    for (let round = 0; round < 5; round++) {
      const other = chain([`round ${round}`, ...range(0, 20_000)])
      own.setAll(3, other, true)
      own.setAll(3, other, false)
    }
    expect(own.entries).toBe(20_000)
    expect(own.bytes).toBeLessThanOrEqual(bytes * 4)
    expect(bytes / 20_000).toBeLessThan(40)
  })

  it('KvEventIndex returns false at its limit', () => {
    const own = new KvEventIndex()
    expect(own.setAll(0, chain(range(0, 10)), true, 6)).toBe(false)
    expect(own.entries).toBe(6)
  })
})

describe('PrefixIndex with KV events', () => {
  const openIndex = () => {
    const index = new PrefixIndex(1000)
    const number = index.addEngine()
    const match = (content: readonly (string | number)[]) => {
      index.match(chain(content), content.length)
      return index.cached[number]
    }
    return { index, number, match }
  }

  it('PrefixIndex with KV events combines reported blocks with blocks booked beyond them', () => {
    const { index, number, match } = openIndex()
    index.applyKvEvents(number, chain(range(0, 6)), new Uint32Array(0))
    expect(match(range(0, 9))).toBe(6)
    index.pin(number, chain(range(0, 8)), 8)
    expect(match(range(0, 9))).toBe(8)
  })

  it('PrefixIndex with KV events keeps a booked prompt until the next sweep, and live blocks beyond it', () => {
    const { index, number, match } = openIndex()
    const before = index.stamp
    index.release(index.pin(number, chain(range(0, 6)), 6))
    index.sweep(number, before)
    expect(match(range(0, 6))).toBe(6)
    const live = index.pin(number, chain(range(0, 3)), 3)
    index.sweep(number, index.stamp)
    expect(match(range(0, 6))).toBe(3)
    index.release(live)
    index.sweep(number, index.stamp)
    expect([match(range(0, 6)), index.entries]).toEqual([0, 0])
  })

  it('PrefixIndex with KV events matches a prompt up to its first missing block, even if later ones are cached', () => {
    const { index, number, match } = openIndex()
    const blocks = chain(range(0, 6))
    index.applyKvEvents(number, blocks, new Uint32Array(0))
    index.applyKvEvents(number, new Uint32Array(0), blocks.slice(4, 6))
    expect(match(range(0, 6))).toBe(2)
    index.applyKvEvents(number, blocks.slice(4, 6), new Uint32Array(0))
    expect(match(range(0, 6))).toBe(6)
  })

  it('PrefixIndex with KV events removes reported blocks with their engine, whose number is reused', () => {
    const { index, number, match } = openIndex()
    index.applyKvEvents(number, chain(range(0, 6)), new Uint32Array(0))
    index.removeEngine(number)
    expect(index.addEngine()).toBe(number)
    expect(match(range(0, 6))).toBe(0)
  })
})
