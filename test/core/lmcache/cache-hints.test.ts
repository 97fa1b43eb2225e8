import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChunkSize } from '../../../src/core/lmcache/chunk-size.ts'
import { holdersOf, type CachePlacement, type ChunkRow } from '../../../src/core/lmcache/prefix-match.ts'
import { hintsOf } from '../../../src/core/lmcache/cache-hints.ts'
import { hostOf, InstanceMap } from '../../../src/core/lmcache/instance-map.ts'

describe('ChunkSize', () => {
  it('ChunkSize is consistent with every lookup, whatever the coordinator’s chunk size', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4096 }),
        fc.array(fc.integer({ min: 1, max: 200_000 }), { minLength: 1, maxLength: 20 }),
        (size, prompts) => {
          const learned = new ChunkSize()
          for (const tokens of prompts) learned.learn(tokens, Math.floor(tokens / size))
          for (const tokens of prompts) expect(Math.floor(tokens / learned.tokens)).toBe(Math.floor(tokens / size))
        },
      ),
    )
  })

  it('ChunkSize is the default while it is consistent, then the roundest consistent size', () => {
    const learned = new ChunkSize()
    expect([learned.tokens, learned.known]).toEqual([256, false])
    learned.learn(1100, 4)
    expect([learned.tokens, learned.known]).toEqual([256, true])
    const small = new ChunkSize()
    small.learn(1000, 15)
    expect(small.tokens).toBe(64)
  })

  it('starts over if a lookup contradicts the others', () => {
    const learned = new ChunkSize()
    learned.learn(1100, 4)
    learned.learn(1100, 2)
    expect(learned.tokens).toBe(512)
  })

  it('ChunkSize stays unknown if no prompt had a whole chunk', () => {
    const learned = new ChunkSize()
    learned.learn(300, 0)
    expect([learned.tokens, learned.known]).toEqual([512, false])
  })
})

const placement = fc.record({
  instance: fc.constantFrom('', 'A', 'B'),
  level: fc.constantFrom('l1' as const, 'l2' as const),
  shared: fc.boolean(),
})
const chunksOf = (ranks: number) =>
  fc.array(fc.array(fc.array(placement, { maxLength: 3 }), { minLength: ranks, maxLength: ranks }), { maxLength: 8 })

/** Number of leading chunks of which every row has a matching placement. */
function leading(chunks: readonly (readonly ChunkRow[])[], fits: (placement: CachePlacement) => boolean): number {
  const end = chunks.findIndex((rows) => !rows.every((row) => row.some(fits)))
  return end < 0 ? chunks.length : end
}

describe('holdersOf', () => {
  it('counts complete leading chunks; each tier includes the faster ones', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3 }).chain(chunksOf), (chunks) => {
        const found = holdersOf(chunks, 10)
        const instances = new Set(
          chunks
            .flat(2)
            .map(({ instance }) => instance)
            .filter((id) => id !== ''),
        )
        expect(new Set(found.instances.keys())).toEqual(instances)
        for (const id of instances) {
          const memory = (one: CachePlacement) => one.instance === id && one.level === 'l1'
          const disk = (one: CachePlacement) => memory(one) || (one.instance === id && !one.shared)
          const any = (one: CachePlacement) => disk(one) || one.shared
          expect(found.instances.get(id)).toEqual({
            host: 10 * leading(chunks, memory),
            disk: 10 * leading(chunks, disk),
            remote: 10 * leading(chunks, any),
          })
        }
        expect(found.shared).toBe(10 * leading(chunks, (one) => one.shared))
      }),
    )
  })
})

describe('hintsOf', () => {
  const reach = (host: number, disk = host, remote = disk) => ({ host, disk, remote })
  const readers = { pairs: [{ engine: 'a', instance: 'A' }], engines: ['a', 'b'], shared: false, promptTokens: 1000 }

  it('hintsOf lists each tier that adds tokens, up to the prompt’s length', () => {
    expect(hintsOf({ instances: new Map([['A', reach(256, 512, 5000)]]), shared: 0 }, readers)).toEqual([
      { engine: 'a', matchedTokens: 256, tier: 'host' },
      { engine: 'a', matchedTokens: 512, tier: 'disk' },
      { engine: 'a', matchedTokens: 1000, tier: 'remote' },
    ])
  })

  it('hintsOf leaves out engines without LMCache, even for shared chunks', () => {
    expect(hintsOf({ instances: new Map(), shared: 512 }, readers)).toEqual([
      { engine: 'a', matchedTokens: 512, tier: 'remote' },
    ])
  })

  it('hintsOf gives every engine the best match if caches are shared', () => {
    expect(
      hintsOf({ instances: new Map([['stranger', reach(768)]]), shared: 0 }, { ...readers, shared: true }),
    ).toEqual([
      { engine: 'a', matchedTokens: 768, tier: 'remote' },
      { engine: 'b', matchedTokens: 768, tier: 'remote' },
    ])
  })
})

describe('engines and LMCache instances', () => {
  it('engines and LMCache instances are matched by host if no instance is configured', () => {
    const map = new InstanceMap([
      { id: 'a', host: '10.0.0.1', instance: null },
      { id: 'b', host: '10.0.0.2', instance: 'said' },
      { id: 'c', host: '10.0.0.3', instance: null },
    ])
    expect(map.openHosts).toEqual(['10.0.0.1', '10.0.0.3'])
    map.adopt([
      { id: 'X', host: '10.0.0.1' },
      { id: 'Y', host: '10.0.0.2' },
    ])
    expect(map.pairs()).toEqual([
      { engine: 'a', instance: 'X' },
      { engine: 'b', instance: 'said' },
    ])
    expect(map.unresolved).toEqual(['c'])
    expect([map.knows('X'), map.knows('said'), map.knows('Z')]).toEqual([true, true, false])
  })

  it('engines and LMCache instances are not matched if two instances share a host, and are matched again after one moved', () => {
    const map = new InstanceMap([{ id: 'a', host: '10.0.0.1', instance: null }])
    map.adopt([
      { id: 'X', host: '10.0.0.1' },
      { id: 'Y', host: '10.0.0.1' },
    ])
    expect(map.pairs()).toEqual([])
    map.adopt([{ id: 'Y', host: '10.0.0.1' }])
    expect(map.pairs()).toEqual([{ engine: 'a', instance: 'Y' }])
  })

  it.each([
    ['http://10.0.0.1:8000', '10.0.0.1'],
    ['https://Engine.Internal/base', 'engine.internal'],
    ['http://[fd00::1]:8000', 'fd00::1'],
  ])('engines and LMCache instances are at the host of %s', (url, host) => {
    expect(hostOf(url)).toBe(host)
  })
})
