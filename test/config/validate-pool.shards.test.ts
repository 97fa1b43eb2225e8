import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'

const parsed = (pool: Readonly<Record<string, unknown>>) =>
  parseConfig(
    {
      version: 1,
      open: true,
      clusters: [
        { id: 'c', pools: [{ model: 'm', engines: ['a', 'b'].map((id) => ({ id, url: `http://${id}:1` })), ...pool }] },
      ],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: false },
  )

it('a pool has one object by default, and at most one per engine', () => {
  expect(parsed({}).clusters[0]!.pools[0]!.shards).toBe(1)
  expect(parsed({ shards: 2 }).clusters[0]!.pools[0]!.shards).toBe(2)
  expect(() => parsed({ shards: 3 })).toThrow(/shards.*at most 2, the number of engines/s)
})

it('an LMCache registry needs a pool with one object', () => {
  expect(() => parsed({ shards: 2, lmcache: { registry: true } })).toThrow(/shards.*lmcache\.registry/s)
})
