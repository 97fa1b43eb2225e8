import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { ConfigError } from '../../src/config/problem.ts'
import { toPoolConfig } from '../../src/config/to-pool-config.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }

const parsed = (engines: readonly object[], pool: object = {}) =>
  parseConfig({ open: true, clusters: [{ id: 'c', pools: [{ model: 'm', engines, ...pool }] }] }, {}, options)

function problemsOf(engines: readonly object[], pool: object = {}): string[] {
  try {
    parsed(engines, pool)
  } catch (error) {
    if (error instanceof ConfigError)
      return error.problems.map(
        ({ path, value, rule }) => `${path.replace('clusters[0].pools[0].', '')} ${value}: ${rule}`,
      )
  }
  return []
}

const a = { id: 'a', url: 'http://10.0.0.1:8000' }

it.each([
  [2, { count: 2, first: 0 }],
  [
    { ranks: 4, first: 8 },
    { count: 4, first: 8 },
  ],
  ['auto', { count: null, first: 0 }],
  [1, undefined],
  ['off', undefined],
  [undefined, undefined],
])('data_parallel: %j gives the pool %j', (written, ranks) => {
  const [cluster] = parsed([{ ...a, ...(written === undefined ? {} : { data_parallel: written }) }]).clusters
  expect(toPoolConfig(cluster!, cluster!.pools[0]!).engines[0]!.ranks).toEqual(ranks)
})

it.each<[string, object, string]>([
  ['no rank', { data_parallel: 0 }, 'engines[0].data_parallel 0: must be at least 1'],
  ['no rank in a mapping', { data_parallel: { ranks: 0 } }, 'engines[0].data_parallel.ranks 0: must be at least 1'],
  ['too many ranks', { data_parallel: 257 }, 'engines[0].data_parallel 257: must be at most 256'],
  ['another word', { data_parallel: 'many' }, 'engines[0].data_parallel "many": must be off, auto, a number of ranks'],
  ['a first rank alone', { data_parallel: { first: 1 } }, 'engines[0].data_parallel.ranks null: is required'],
  ['a type without ranks', { type: 'tgi', data_parallel: 2 }, 'engines[0].data_parallel 2: must be off: tgi has no'],
  ['a provider', { kind: 'external', data_parallel: 2 }, 'engines[0].data_parallel 2: is for your own engines'],
  [
    'ports of events that reach those of replays',
    { data_parallel: 3, kv_events: { endpoint: 'tcp://gpu:5557', replay_endpoint: 'tcp://gpu:5559' } },
    'engines[0].kv_events.replay_endpoint "tcp://gpu:5559": must have a port that differs by at least 3',
  ],
  [
    'a rank of its own',
    { data_parallel: 2, headers: { 'X-Data-Parallel-Rank': '0' } },
    'engines[0].headers.X-Data-Parallel-Rank',
  ],
])('a configuration rejects %s with path, value and rule', (_, changes, problem) => {
  const found = problemsOf([
    { ...a, ...changes },
    { id: 'b', url: 'http://10.0.0.2:8000' },
  ])
  expect(found).toEqual([expect.stringContaining(problem)])
})

it('a configuration rejects a rank by hand on a server whose ranks are engines', () => {
  const byHand = { ...a, id: 'b', headers: { 'X-data-parallel-rank': '5' } }
  expect(problemsOf([{ ...a, data_parallel: 2 }, byHand])).toEqual([
    expect.stringMatching(
      /^engines\[1\]\.url "http:.*: is the server of clusters\[0\]\.pools\[0\]\.engines\[0\],.*overlap/,
    ),
  ])
  expect(problemsOf([{ ...a, headers: { 'X-data-parallel-rank': '4' } }, byHand])).toEqual([])
})

it('a configuration rejects ranks in a pool with LMCache', () => {
  expect(problemsOf([{ ...a, data_parallel: 2 }], { lmcache: { coordinator: 'http://10.0.0.9:9300' } })).toEqual([
    expect.stringContaining('engines[0].data_parallel 2: must be off with LMCache'),
  ])
})
