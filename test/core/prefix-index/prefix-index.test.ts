import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Pin, PrefixIndex } from '../../../src/core/prefix-index/prefix-index.ts'
import { chain, range } from './block-chains.ts'
import { anyPrompt, apply, step, threeEngines } from './index-steps.ts'

const match = (index: PrefixIndex, content: readonly (string | number)[], engine: number) => {
  index.match(chain(content), content.length)
  return { cached: index.cached[engine], live: index.live[engine] }
}

const pin = (index: PrefixIndex, engine: number, content: readonly (string | number)[]): Pin =>
  index.pin(engine, chain(content), content.length)

describe('PrefixIndex', () => {
  it('PrefixIndex matches a prompt from the moment it is booked', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine()
    pin(index, engine, range(0, 10))
    expect(match(index, [...range(0, 6), 'other'], engine)).toEqual({ cached: 6, live: 6 })
  })

  it('PrefixIndex counts the live requests that hold the longest live part of a prompt', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine()
    const sharers = (content: readonly (string | number)[]) => {
      index.match(chain(content), content.length)
      return index.sharers[engine]
    }
    const first = pin(index, engine, [...range(0, 10), 'one'])
    pin(index, engine, [...range(0, 10), 'two'])
    expect(sharers([...range(0, 10), 'three'])).toBe(2)
    expect(sharers([...range(0, 10), 'two'])).toBe(1)
    expect(sharers(['none'])).toBe(0)
    index.release(first)
    expect(sharers([...range(0, 10), 'three'])).toBe(1)
  })

  it('PrefixIndex keeps a released prompt cached but not live', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine()
    index.release(pin(index, engine, range(0, 10)))
    expect(match(index, range(0, 12), engine)).toEqual({ cached: 10, live: 0 })
  })

  it('PrefixIndex compares both lanes of a hash', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine()
    index.pin(engine, Uint32Array.of(1, 1, 2, 2, 3, 3), 3)
    index.match(Uint32Array.of(1, 1, 2, 9, 3, 9), 3)
    expect(index.cached[engine]).toBe(1)
  })

  it('PrefixIndex does not match a block from the middle of a prompt at the start', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine()
    // The fork makes the second block the first one of a run.
    index.pin(engine, Uint32Array.of(1, 1, 2, 2), 2)
    index.pin(engine, Uint32Array.of(1, 1, 3, 3), 2)
    index.match(Uint32Array.of(2, 2), 1)
    expect(index.cached[engine]).toBe(0)
  })

  it('PrefixIndex returns the longest prefix of every engine in one call', () => {
    const index = new PrefixIndex(10_000)
    for (let engine = 0; engine < 40; engine++) {
      index.addEngine()
      index.release(pin(index, engine, [...range(0, 10 * engine), `only ${engine}`]))
    }
    index.match(chain(range(0, 1000)), 1000)
    expect([...index.cached.subarray(0, 40)]).toEqual(range(0, 40).map((engine) => 10 * engine))
  })

  it('PrefixIndex finds the fork of two long prompts wherever it is', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1200 }), fc.integer({ min: 1, max: 1200 }), (shared, tail) => {
        const index = new PrefixIndex(100_000)
        const engine = index.addEngine()
        index.release(pin(index, engine, [...range(0, shared), ...range(5000, 5000 + tail)]))
        expect(match(index, [...range(0, shared), ...range(9000, 9100)], engine).cached).toBe(shared)
      }),
      { numRuns: 60 },
    )
  })

  it('PrefixIndex evicts the end of the least recently used prompt first', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine(20)
    index.release(pin(index, engine, ['a', ...range(0, 9)]))
    index.release(pin(index, engine, ['b', ...range(0, 9)]))
    index.release(pin(index, engine, ['c', ...range(0, 3)]))
    expect(match(index, ['a', ...range(0, 9)], engine).cached).toBe(6)
    expect(match(index, ['b', ...range(0, 9)], engine).cached).toBe(10)
  })

  it('PrefixIndex does not evict blocks of a live request, however small the cache', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine(4)
    const held = pin(index, engine, range(0, 10))
    expect(match(index, range(0, 10), engine)).toEqual({ cached: 10, live: 10 })
    index.release(held)
    expect(match(index, range(0, 10), engine)).toEqual({ cached: 4, live: 0 })
  })

  it('PrefixIndex removes blocks that an engine never prefilled, and keeps earlier ones', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine()
    index.release(pin(index, engine, range(0, 6)))
    const failed = pin(index, engine, range(0, 600))
    index.release(failed, 6)
    expect(match(index, range(0, 600), engine)).toEqual({ cached: 6, live: 0 })
    expect(index.entries).toBe(6)
  })

  it('PrefixIndex keeps blocks of a second live request if the first one fails', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine()
    const failed = pin(index, engine, range(0, 8))
    pin(index, engine, range(0, 12))
    index.release(failed, 0)
    expect(match(index, range(0, 12), engine)).toEqual({ cached: 12, live: 12 })
  })

  it('PrefixIndex removes a flushed engine’s blocks, and those of its live requests when they end', () => {
    const index = new PrefixIndex(1000)
    const [flushed, other] = [index.addEngine(), index.addEngine()]
    index.release(pin(index, flushed, range(0, 10)))
    index.release(pin(index, other, range(0, 10)))
    const running = pin(index, flushed, range(0, 12))
    index.flush(flushed)
    expect(match(index, range(0, 12), flushed)).toEqual({ cached: 0, live: 12 })
    index.release(running)
    expect(match(index, range(0, 12), flushed)).toEqual({ cached: 0, live: 0 })
    expect(match(index, range(0, 12), other).cached).toBe(10)
  })

  it('PrefixIndex pins at most its limit of live blocks, and returns their number', () => {
    const index = new PrefixIndex(10)
    const engine = index.addEngine()
    expect(pin(index, engine, ['a', ...range(0, 7)]).blocks).toBe(8)
    expect(pin(index, engine, ['b', ...range(0, 7)]).blocks).toBe(2)
    expect(pin(index, engine, ['c', ...range(0, 7)])).toEqual({ engine, holding: -1, blocks: 0 })
    expect(index.entries).toBe(10)
  })

  it('PrefixIndex never matches more than was pinned, even for unchained hashes', () => {
    const word = fc.integer({ min: 0, max: 3 })
    fc.assert(
      fc.property(fc.array(fc.array(word, { maxLength: 12 }), { maxLength: 30 }), (prompts) => {
        const index = new PrefixIndex(1000)
        const engine = index.addEngine(20)
        for (const prompt of prompts) {
          const pinned = index.pin(engine, Uint32Array.from(prompt), prompt.length >> 1)
          expect(pinned.blocks).toBeLessThanOrEqual(prompt.length >> 1)
          index.release(pinned)
        }
        index.setCapacity(engine, 0)
        expect(index.usedBytes).toBe(0)
      }),
    )
  })

  it('PrefixIndex stays within its memory even when every block is a fork', () => {
    const index = new PrefixIndex(5000)
    const engine = index.addEngine()
    for (let at = 0; at < 20_000; at++) index.release(pin(index, engine, [at % 97, at % 89, at]))
    expect(index.usedBytes).toBeLessThanOrEqual(5000 * 40)
    expect(index.entries).toBeGreaterThan(1000)
  })
})

describe('PrefixIndex against a naive model', () => {
  it('PrefixIndex against a naive model agrees on matches, counts, ages, eviction order and caps after any history, and ends empty', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 60 }),
        fc.array(anyPrompt, { minLength: 4, maxLength: 8 }),
        fc.integer({ min: 20, max: 120 }),
        (steps, probes, cap) => {
          const { index, naive, pins } = threeEngines(cap)
          for (const one of steps) {
            apply(one, index, naive, pins)
            expect(index.entries).toBe(naive.entries())
            for (const probe of one.do === 'pin' ? [one.content, ...probes] : probes) {
              index.match(chain(probe), probe.length)
              for (const engine of [0, 1, 2]) {
                expect([index.cached[engine], index.live[engine]]).toEqual([
                  naive.cached(engine, probe),
                  naive.live(engine, probe),
                ])
                expect(index.lastUsed(engine)).toBe(naive.lastUsed(engine, probe))
              }
            }
            for (const engine of [0, 1, 2]) {
              expect(index.cachedBlocks(engine)).toBe(naive.cachedBlocks(engine))
              expect(index.liveBlocks(engine)).toBe(naive.liveBlocks(engine))
              for (const ago of [0, 1, 3, 8])
                expect(index.usedSince(engine, index.stamp - ago)).toBe(naive.usedSince(engine, naive.releases - ago))
            }
          }
          for (const [own] of pins) index.release(own)
          for (const engine of [0, 1, 2]) index.setCapacity(engine, 0)
          expect([index.entries, index.usedBytes]).toEqual([0, 0])
        },
      ),
      { numRuns: 400 },
    )
  })
})
