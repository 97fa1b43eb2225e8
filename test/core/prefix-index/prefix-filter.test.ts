import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nextDepth, openFilter, packFilter, type PrefixFilter } from '../../../src/core/prefix-index/prefix-filter.ts'
import { chainBlocks, chainSeed } from '../../../src/core/tokens/block-hash.ts'

const BLOCK_WORDS = 4

/** Block hashes of a prompt. */
function blocksOf(name: number, count: number): Uint32Array {
  const words = Uint32Array.from({ length: count * BLOCK_WORDS }, (_, at) => (at === 0 ? name : at))
  const seed = chainSeed({ model: 'm', adapter: null, salts: [], tenant: null, unit: 'ids', blockTokens: BLOCK_WORDS })
  return chainBlocks(seed, words, [0, words.length], BLOCK_WORDS)
}

function sampleOf(prompts: readonly Uint32Array[]): Uint32Array {
  const lanes: number[] = []
  for (const blocks of prompts)
    for (let depth = 1; depth * 2 <= blocks.length; depth = nextDepth(depth)) lanes.push(blocks[depth * 2 - 2]!)
  return Uint32Array.from(lanes)
}

const filterOf = (...prompts: readonly Uint32Array[]): PrefixFilter => openFilter(packFilter(sampleOf(prompts)))!
const lanes = fc.uint32Array({ maxLength: 300 }) as fc.Arbitrary<Uint32Array>

describe('sampled depths', () => {
  it('sampled depths are the powers of two and their midpoints', () => {
    const depths: number[] = []
    for (let depth = nextDepth(0); depth <= 49_152; depth = nextDepth(depth)) depths.push(depth)
    expect(depths).toEqual(
      [...new Set(Array.from({ length: 16 }, (_, at) => [2 ** at, Math.max(1, 1.5 * 2 ** at)]).flat())]
        .filter(Number.isInteger)
        .sort((a, b) => a - b),
    )
  })

  it('sampled depths continue from any depth', () => {
    expect([5, 7, 9, 33, 47, 32_767].map(nextDepth)).toEqual([6, 8, 12, 48, 48, 32_768])
  })
})

describe('a prefix filter', () => {
  it('a prefix filter matches a prompt to its deepest sampled depth, also for a different tail', () => {
    const known = blocksOf(1, 1000)
    const filter = filterOf(known)
    expect(filter.size).toBe(sampleOf([known]).length)
    for (const [count, depth] of [
      [0, 0],
      [1, 1],
      [5, 4],
      [6, 6],
      [700, 512],
      [1000, 768],
    ] as const)
      expect(filter.blocksOf(known.slice(0, count * 2))).toBe(depth)
    const other = Uint32Array.from([...known.slice(0, 200), ...blocksOf(2, 500).slice(200)])
    expect(filter.blocksOf(other)).toBe(96)
    expect(filter.blocksOf(blocksOf(2, 1000))).toBe(0)
  })

  it('a prefix filter contains every packed lane', () => {
    fc.assert(
      fc.property(lanes, (sample) => {
        const filter = openFilter(packFilter(sample))!
        expect(filter.size).toBeLessThanOrEqual(sample.length)
        for (const lane of sample) expect(filter.blocksOf(Uint32Array.of(lane, 0))).toBe(1)
      }),
    )
  })

  it('a prefix filter is equal for any order of lanes and with duplicates', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(0xffff_ffff), { minLength: 5, maxLength: 8 }), (sample) => {
        expect(packFilter(Uint32Array.from([...sample].reverse()))).toBe(packFilter(Uint32Array.from(sample)))
      }),
    )
    expect(filterOf(blocksOf(1, 50), blocksOf(1, 50)).size).toBe(sampleOf([blocksOf(1, 50)]).length)
  })

  it('a prefix filter can be empty, and is short for few entries', () => {
    expect(openFilter(packFilter(new Uint32Array(0)))).toMatchObject({ size: 0 })
    expect(openFilter(packFilter(new Uint32Array(0)))!.blocksOf(blocksOf(1, 10))).toBe(0)
    expect(packFilter(sampleOf([blocksOf(1, 16)])).length).toBeLessThan(50)
  })

  it.each([[100], [1000], [4097], [8192]])(
    'of %i entries takes under 2.7 digits each, and 1 of 1500 strange prompts for known at most',
    (count) => {
      const sample = Uint32Array.from({ length: count }, (_, at) => blocksOf(at, 1)[0]!)
      const text = packFilter(sample)
      expect(text.length).toBeLessThan(count * 2.7 + 20)
      const filter = openFilter(text)!
      let taken = 0
      for (let name = 0; name < 30_000; name++) if (filter.blocksOf(blocksOf(1_000_000 + name, 1)) > 0) taken++
      expect(taken / 30_000).toBeLessThan(1 / 1500)
    },
  )

  it('a prefix filter is null for other texts, without throwing', () => {
    for (const text of [
      '',
      ' ',
      'K',
      '!AA',
      'hAA',
      'LA',
      'LAAA',
      'L_',
      'LAA_',
      'L__',
      'L___',
      'LA=',
      'LÿA',
      'LA\u{1F600}',
      'L\0\0',
    ])
      expect([text, openFilter(text)]).toEqual([text, null])
    expect(openFilter('LAA')).toMatchObject({ size: 1 })
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.string({ maxLength: 40 }).map((tail) => `Y${tail}`),
          fc.base64String(),
        ),
        (text) => {
          const filter = openFilter(text)
          expect(filter === null || filter.size <= text.length / 2).toBe(true)
        },
      ),
    )
  })

  it('reads truncated or changed texts as null or as a valid filter', () => {
    fc.assert(
      fc.property(lanes, fc.nat(), fc.integer({ min: 1, max: 0xffff }), (sample, where, flip) => {
        const text = packFilter(sample)
        const at = where % text.length
        for (const hostile of [
          text.slice(0, at),
          text.slice(at),
          text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ flip) + text.slice(at + 1),
          text + text,
        ]) {
          const found = openFilter(hostile)?.blocksOf(blocksOf(1, 100)) ?? 0
          expect(found).toBeGreaterThanOrEqual(0)
          expect(found).toBeLessThanOrEqual(100)
        }
      }),
    )
  })

  it('a prefix filter limits entries by the announced bits and the text length', () => {
    expect(openFilter(`L${'_'.repeat(10)}AA`)).toBeNull()
    expect(openFilter(`g${'AA'.repeat(32_000)}`)).toMatchObject({ size: 32_000 })
    expect(openFilter(`g${'AA'.repeat(33_000)}`)).toBeNull()
    expect(openFilter(`g${'_'.repeat(65_535)}`)).toBeNull()
  })
})
