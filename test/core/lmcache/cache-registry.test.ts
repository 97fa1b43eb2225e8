import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chunkHashes, hashHex } from '../../../src/core/lmcache/chunk-hashes.ts'
import { promptKeys, wireKeys } from '../../../src/core/lmcache/chunk-keys.ts'
import { CacheRegistry } from '../../../src/core/lmcache/cache-registry.ts'
import { ChunkDirectory } from '../../../src/core/lmcache/chunk-directory.ts'
import type { CacheEvents, RegisteredInstance } from '../../../src/core/lmcache/registry-call.ts'
import { admission, engine } from '../../kit/pool-fixtures.ts'

const events = (changes: Partial<CacheEvents> = {}): CacheEvents => ({
  instance: 'A',
  incarnation: 1,
  seq: 1,
  kind: 'store',
  level: 'l1',
  backend: 'dram',
  shared: false,
  worldSize: 1,
  keys: new Uint32Array(0),
  ranks: new Uint8Array(0),
  ...changes,
})
const keysOf = (...chunks: number[]): Pick<CacheEvents, 'keys' | 'ranks'> => ({
  keys: Uint32Array.from(chunks.flatMap((chunk) => [chunk, chunk * 7])),
  ranks: new Uint8Array(chunks.length),
})
const host = (id: string, ip = '10.0.0.1'): RegisteredInstance => ({
  id,
  ip,
  httpPort: 8080,
  metadata: {},
  p2pUrl: '',
  mqPort: 0,
})

describe('chunk keys', () => {
  it('chunk keys are equal from a prompt and from event hashes, and differ by model and salt', () => {
    const tokens = Array.from({ length: 700 }, (_, at) => at * 3)
    const hashes = chunkHashes(tokens, 256)
    const hex = [0, 1].map((at) => hashHex(hashes, at))
    const of = (model: string, salt: string) => promptKeys(tokens, 256, { model, salt })
    expect(wireKeys(hex.map((hash) => ({ hash, model: 'm', salt: 's' })))).toEqual(of('m', 's'))
    expect(of('m', 's')).toHaveLength(4)
    expect(of('n', 's')).not.toEqual(of('m', 's'))
    expect(of('m', '')).not.toEqual(of('m', 's'))
    expect(wireKeys([{ hash: '00ff', model: 'm', salt: '' }])).toHaveLength(2)
  })
})

interface Step {
  readonly instance: 'A' | 'B'
  readonly kind: 'store' | 'delete' | 'access' | 'fence'
  readonly level: 'l1' | 'l2'
  readonly chunk: number
}

const step = fc.record({
  instance: fc.constantFrom('A' as const, 'B' as const),
  kind: fc.constantFrom('store' as const, 'delete' as const, 'access' as const, 'fence' as const),
  level: fc.constantFrom('l1' as const, 'l2' as const),
  chunk: fc.nat(5),
})

/** Model of the directory: a set of names. */
function naive(steps: readonly Step[]): Set<string> {
  const held = new Set<string>()
  for (const { instance, kind, level, chunk } of steps) {
    const name = `${instance} ${level} ${chunk}`
    if (kind === 'store' || (kind === 'access' && level === 'l1')) held.add(name)
    else if (kind === 'delete') held.delete(name)
    else if (kind === 'fence') for (const one of held) if (one.startsWith(`${instance} l1`)) held.delete(one)
  }
  return held
}

describe('ChunkDirectory', () => {
  it('ChunkDirectory removes the memory of instances that left and keeps their disks', () => {
    const directory = new ChunkDirectory(1000)
    for (let at = 0; at < 200; at++) {
      const instance = `node-${at}`
      directory.apply(events({ instance, level: 'l1', backend: 'l1', ...keysOf(1) }))
      directory.apply(events({ instance, level: 'l2', backend: 'fs', ...keysOf(2) }))
      directory.dropMemory(instance)
    }
    expect(directory.places).toBe(0)
    expect(directory.row(keysOf(1), 0)).toEqual([])
    expect(directory.row(keysOf(2), 0)).toHaveLength(200)
    directory.apply(events({ instance: 'node-7', level: 'l2', backend: 'fs', ...keysOf(2) }))
    expect(directory.row(keysOf(2), 0)).toHaveLength(200)
    for (let at = 0; at < 500; at++)
      directory.apply(events({ instance: `late-${at}`, level: 'l2', backend: 'fs', ...keysOf(2) }))
    expect(directory.row(keysOf(2), 0).map(({ instance }) => instance)).toEqual(
      Array.from({ length: 256 }, (_, at) => `late-${244 + at}`),
    )
  })

  it('ChunkDirectory contains chunks that were stored and neither deleted nor lost in a restart', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const directory = new ChunkDirectory(1000)
        for (const { instance, kind, level, chunk } of steps) {
          if (kind === 'fence') directory.dropMemory(instance)
          else
            directory.apply(
              events({ instance, kind, level, backend: kind === 'access' ? '' : level, ...keysOf(chunk) }),
            )
        }
        const held = Array.from({ length: 6 }, (_, chunk) =>
          directory.row(keysOf(chunk), 0).map(({ instance, level }) => `${instance} ${level} ${chunk}`),
        ).flat()
        expect(new Set(held)).toEqual(naive(steps))
        expect(held).toHaveLength(new Set(held).size)
      }),
    )
  })

  it('ChunkDirectory stays within its limit and evicts the least recently used chunk', () => {
    const directory = new ChunkDirectory(3)
    directory.apply(events(keysOf(1, 2, 3)))
    directory.apply(events({ kind: 'access', ...keysOf(1) }))
    directory.leading(keysOf(2).keys, 1)
    directory.apply(events(keysOf(4)))
    expect(directory.size).toBe(3)
    expect([1, 2, 3, 4].map((chunk) => directory.row(keysOf(chunk), 0).length)).toEqual([1, 0, 1, 1])
  })
})

describe('CacheRegistry', () => {
  const engines = [engine('a'), engine('b', { lmcacheInstance: 'B' })]
  const prompt = (...chunks: number[]) =>
    admission({
      promptTokens: 100 * chunks.length,
      chunks: { keys: keysOf(...chunks).keys, tokens: 100, shared: false },
    })
  const open = (): CacheRegistry => {
    const registry = new CacheRegistry()
    registry.configure({ engines })
    return registry
  }

  it('CacheRegistry replaces an admission’s chunks by hints', () => {
    const registry = open()
    registry.call({ kind: 'events', batches: [events({ instance: 'B', ...keysOf(1, 2) })] }, 0)
    const hinted = registry.withHints(prompt(1, 2, 3), 0)
    expect(hinted.hints).toEqual([{ engine: 'b', matchedTokens: 200, tier: 'host' }])
    expect('chunks' in hinted).toBe(false)
  })

  it('CacheRegistry returns null before the first report and an empty list after it', () => {
    const registry = open()
    expect(registry.withHints(prompt(1), 0).hints).toBeNull()
    registry.call({ kind: 'register', instance: host('A'), engines: [] }, 0)
    expect(registry.withHints(prompt(1), 0).hints).toEqual([])
  })

  it('CacheRegistry uses the engines that the edge found at an instance’s address', () => {
    const registry = open()
    registry.call({ kind: 'register', instance: host('A'), engines: ['a', 'b', 'gone'] }, 0)
    registry.call({ kind: 'events', batches: [events(keysOf(1))] }, 0)
    expect(registry.withHints(prompt(1), 0).hints).toEqual([{ engine: 'a', matchedTokens: 100, tier: 'host' }])
  })

  it('CacheRegistry asks instances to register again when engines change, and keeps the old match until then', () => {
    const registry = open()
    registry.call({ kind: 'register', instance: host('A'), engines: ['a'] }, 0)
    registry.configure({ engines })
    expect(registry.call({ kind: 'heartbeat', id: 'A' }, 1)).toEqual({ kind: 'heartbeat', known: true })
    registry.configure({ engines: [...engines, engine('c')] })
    registry.call({ kind: 'events', batches: [events(keysOf(1))] }, 2)
    expect(registry.withHints(prompt(1), 2).hints).toEqual([{ engine: 'a', matchedTokens: 100, tier: 'host' }])
    expect(registry.call({ kind: 'heartbeat', id: 'A' }, 3)).toEqual({ kind: 'heartbeat', known: false })
    expect(registry.call({ kind: 'register', instance: host('A'), engines: ['c'] }, 4)).toEqual({
      kind: 'register',
      again: true,
    })
    expect(registry.withHints(prompt(1), 5).hints).toEqual([{ engine: 'c', matchedTokens: 100, tier: 'host' }])
  })

  it('CacheRegistry removes an instance and its memory if its heartbeats stop', () => {
    const registry = open()
    registry.call({ kind: 'register', instance: host('A'), engines: ['a'] }, 0)
    registry.call({ kind: 'events', batches: [events(keysOf(1))] }, 0)
    registry.call({ kind: 'heartbeat', id: 'A' }, 20_000)
    expect(registry.withHints(prompt(1), 50_000).hints).toHaveLength(1)
    expect(registry.withHints(prompt(1), 50_001).hints).toBeNull()
    expect(registry.call({ kind: 'heartbeat', id: 'A' }, 50_002)).toEqual({ kind: 'heartbeat', known: false })
  })

  it('CacheRegistry removes the memory of a restarted instance and keeps its disks', () => {
    const registry = new CacheRegistry()
    const offer = (changes: Partial<CacheEvents>) => registry.call({ kind: 'events', batches: [events(changes)] }, 0)
    const levels = () => {
      const answer = registry.call({ kind: 'lookup', keys: keysOf(1) }, 0)
      return answer.kind === 'lookup' ? answer.rows[0]!.map(({ level }) => level) : []
    }
    offer({ seq: 1, ...keysOf(1) })
    offer({ seq: 2, level: 'l2', backend: 'disk', ...keysOf(1) })
    expect(levels()).toEqual(['l1', 'l2'])
    offer({ incarnation: 2, seq: 1, ...keysOf(2) })
    expect(levels()).toEqual(['l2'])
  })

  it('CacheRegistry accepts a lower incarnation after the instance left', () => {
    const registry = open()
    const tell = (incarnation: number, seq: number) =>
      registry.call({ kind: 'events', batches: [events({ incarnation, seq })] }, 0)
    expect(tell(9, 1)).toMatchObject({ applied: 1 })
    expect(tell(3, 1)).toMatchObject({ stale: 1 })
    registry.call({ kind: 'leave', id: 'A' }, 0)
    expect(tell(3, 1)).toMatchObject({ applied: 1 })
  })
})
