import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  chainBlocks,
  chainSeed,
  chainText,
  chainWords,
  type ChainScope,
  type ChainState,
} from '../../../src/core/tokens/block-hash.ts'
import { pairs } from './support.ts'

const scope: ChainScope = { model: 'm', adapter: null, salts: [], tenant: null, unit: 'ids', blockTokens: 4 }
const hashes = (ids: readonly number[], blockTokens = 4, changes: Partial<ChainScope> = {}): string[] =>
  pairs(
    chainBlocks(chainSeed({ ...scope, blockTokens, ...changes }), Uint32Array.from(ids), [0, ids.length], blockTokens),
  )

const lanes = (block: readonly number[]): Uint32Array =>
  chainBlocks(chainSeed(scope), Uint32Array.from(block), [0, 16], 16)

const tokenIds = fc.array(fc.integer({ min: 0, max: 200_000 }), { maxLength: 80 })

/** A model that keeps whole prefixes instead of hashes. */
const prefixes = (ids: readonly number[], size: number): string[] =>
  Array.from({ length: Math.floor(ids.length / size) }, (_, i) => ids.slice(0, (i + 1) * size).join())

/**
 * Hash of one block by its definition. It may never change, because gateways of different versions share pool states.
 */
function definedBlock(state: ChainState, words: readonly number[], length: number): void {
  let a = state.lo
  let b = state.hi
  for (const word of words) {
    a = Math.imul(a ^ word, 0x9e3779b1)
    a ^= a >>> 15
    b = Math.imul(b + word, 0x85ebca77)
    b ^= b >>> 13
  }
  a ^= length
  b ^= length
  a = (a + b) | 0
  b = (b + a) | 0
  a = Math.imul(a ^ (a >>> 16), 0x85ebca6b)
  a = Math.imul(a ^ (a >>> 13), 0xc2b2ae35)
  a ^= a >>> 16
  b = Math.imul(b ^ (b >>> 16), 0xc2b2ae35)
  b = Math.imul(b ^ (b >>> 13), 0x85ebca6b)
  b ^= b >>> 16
  a = (a + b) | 0
  b = (b + a) | 0
  state.lo = a === 0 && b === 0 ? 1 : a >>> 0
  state.hi = b >>> 0
}

const anyWord = fc.integer({ min: 0, max: 0xffffffff })
const anyState = fc.record({ lo: anyWord, hi: anyWord })

describe('chained block hashes', () => {
  it('chained block hashes match the definition, bit by bit, over several prompts', () => {
    fc.assert(
      fc.property(
        anyState,
        fc.array(fc.array(anyWord, { maxLength: 40 }), { maxLength: 4 }),
        fc.integer({ min: 1, max: 9 }),
        (start, prompts, size) => {
          const spans: number[] = []
          const expected: number[] = []
          const state = { ...start }
          for (const words of prompts) {
            const from = spans.at(-1) ?? 0
            spans.push(from, from + words.length)
            for (let at = 0; at + size <= words.length; at += size) {
              definedBlock(state, words.slice(at, at + size), size)
              expected.push(state.lo, state.hi)
            }
          }
          const ended = { ...start }
          expect([...chainBlocks(ended, Uint32Array.from(prompts.flat()), spans, size)]).toEqual(expected)
          expect(ended).toEqual(state)
        },
      ),
    )
  })

  it('chained block hashes of one block of words or text match the definition', () => {
    fc.assert(
      fc.property(
        anyState,
        fc.array(anyWord, { maxLength: 20 }),
        fc.array(fc.nat(0xffff), { maxLength: 20 }),
        (start, words, codes) => {
          const text = String.fromCharCode(...codes)
          const [expected, state, ofList] = [{ ...start }, { ...start }, { ...start }]
          definedBlock(expected, words, words.length)
          chainWords(state, Uint32Array.from(words), 0, words.length)
          chainWords(ofList, words, 0, words.length)
          expect([state, ofList]).toEqual([expected, expected])
          const units = Array.from(
            { length: Math.ceil(codes.length / 2) },
            (_, i) => codes[2 * i]! | ((codes[2 * i + 1] ?? 0) << 16),
          )
          const [afterText, expectedText] = [{ ...start }, { ...start }]
          chainText(afterText, text)
          definedBlock(expectedText, units, codes.length)
          expect(afterText).toEqual(expectedText)
        },
      ),
    )
  })

  it('chained block hashes are equal if and only if the whole prefix is equal', () => {
    fc.assert(
      fc.property(tokenIds, tokenIds, fc.nat(80), fc.integer({ min: 1, max: 9 }), (a, b, shared, size) => {
        const other = [...a.slice(0, shared), ...b]
        const left = hashes(a, size)
        const right = hashes(other, size)
        const expected = prefixes(a, size).map((prefix, i) => prefix === prefixes(other, size)[i])
        expect(left.map((hash, i) => hash === right[i])).toEqual(expected)
      }),
    )
  })

  it('cover full blocks only', () => {
    expect(hashes([1, 2, 3])).toHaveLength(0)
    expect(hashes([1, 2, 3, 4])).toHaveLength(1)
    expect(hashes([1, 2, 3, 4, 5, 6, 7])).toHaveLength(1)
  })

  it('chained block hashes continue from prompt to prompt of a batch, each cut separately', () => {
    const ids = Uint32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    const batch = pairs(chainBlocks(chainSeed(scope), ids, [0, 5, 5, 10], 4))
    expect(batch).toHaveLength(2)
    expect(batch[0]).toBe(hashes([...ids])[0])
    expect(batch[1]).not.toBe(hashes([...ids])[1])
  })

  it.each<[string, Partial<ChainScope>]>([
    ['model', { model: 'n' }],
    ['adapter', { adapter: 'a' }],
    ['an adapter without a name', { adapter: '' }],
    ['salt', { salts: ['s'] }],
    ['two salts', { salts: ['s', 't'] }],
    ['the same text as one salt', { salts: ['st'] }],
    ['tenant', { tenant: 't' }],
    ['unit', { unit: 'bytes' }],
    ['block size', { blockTokens: 8 }],
  ])('chained block hashes differ by %s', (_, change) => {
    const words = Uint32Array.of(1, 2, 3, 4)
    const of = (changes: Partial<ChainScope>): string[] =>
      pairs(chainBlocks(chainSeed({ ...scope, ...changes }), words, [0, 4], 4))
    expect(of(change)).not.toEqual(of({}))
  })

  it('chained block hashes differ for salts and tenants whose concatenations are equal', () => {
    expect(hashes([1, 2, 3, 4], 4, { salts: ['ab', 'c'] })).not.toEqual(hashes([1, 2, 3, 4], 4, { salts: ['a', 'bc'] }))
    expect(hashes([1, 2, 3, 4], 4, { salts: ['a'] })).not.toEqual(hashes([1, 2, 3, 4], 4, { tenant: 'a' }))
  })

  it('change about half of all bits when one input bit changes', () => {
    const block = Array.from({ length: 16 }, (_, i) => (i * 7919) >>> 0)
    const base = lanes(block)
    let worst = 64
    let sum = 0
    for (let bit = 0; bit < 16 * 32; bit++) {
      const changed = [...block]
      changed[bit >> 5] = ((changed[bit >> 5] ?? 0) ^ (1 << (bit & 31))) >>> 0
      const other = lanes(changed)
      const flipped = ones((base[0] ?? 0) ^ (other[0] ?? 0)) + ones((base[1] ?? 0) ^ (other[1] ?? 0))
      worst = Math.min(worst, flipped)
      sum += flipped
    }
    expect(worst).toBeGreaterThanOrEqual(10)
    expect(sum / 512).toBeGreaterThan(30)
    expect(sum / 512).toBeLessThan(34)
  })

  it('chained block hashes differ for blocks that differ only in the top bits of adjacent words', () => {
    const top = 0x80000000
    const words = [
      [0, 0, 0, 0],
      [top, 0, 0, 0],
      [top, top, 0, 0],
      [0, top, top, 0],
      [0, 0, top, top],
      [top, top, top, top],
    ]
    const seen = new Set(words.flatMap((block) => hashes(block)))
    expect(seen.size).toBe(6)
  })

  it('chained block hashes have no collisions among a million structured blocks, and random collisions of single lanes', () => {
    const count = 1_048_576
    const state = new Uint32Array(count * 2)
    const block = new Uint32Array(16)
    for (let i = 0; i < count; i++) {
      block[3] = i & 1023
      block[11] = i >>> 10
      state.set(chainBlocks({ lo: 1, hi: 2 }, block, [0, 16], 16), i * 2)
    }
    const keys = new Float64Array(count)
    const lows = new Uint32Array(count)
    for (let i = 0; i < count; i++) {
      keys[i] = (state[2 * i] as number) * 2 ** 21 + ((state[2 * i + 1] as number) & 0x1fffff)
      lows[i] = state[2 * i] as number
    }
    expect(duplicates(keys.sort())).toBe(0)
    // n²/2 pairs over 2³² values: 128 expected; far more would mean a weak lane.
    expect(duplicates(lows.sort())).toBeLessThan(200)
  })
})

function duplicates(sorted: Float64Array | Uint32Array): number {
  let equal = 0
  for (let i = 1; i < sorted.length; i++) if (sorted[i] === sorted[i - 1]) equal++
  return equal
}

function ones(word: number): number {
  let left = word >>> 0
  let count = 0
  for (; left !== 0; left &= left - 1) count++
  return count
}
