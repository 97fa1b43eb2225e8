import { expect, it } from 'vitest'
import { changedPaths } from '../../src/config/changed-paths.ts'
import { parseConfig } from '../../src/config/parse.ts'

const engines = (...ids: readonly string[]) => ids.map((id) => ({ id, url: `http://${id}.test` }))
const base = {
  keys: [
    { name: 'a', secret: 'hush-a' },
    { name: 'b', secret: 'hush-b' },
  ],
  clusters: [
    {
      id: 'c',
      pools: [
        { model: 'm', engines: engines('x', 'y') },
        { model: 'n', engines: engines('z') },
      ],
    },
  ],
}
const configOf = (document: object, version = 1) =>
  parseConfig(document, {}, { defaultVersion: version, defaultObserveShare: 1, listens: true })
const changed = (document: object) => changedPaths(configOf(base), configOf({ ...base, ...document }, 2))

it('a document that is written anew has no changes', () => {
  expect(changed({})).toEqual([])
})

it('the list of changed settings names each setting that differs, in the words of the document, and no value', () => {
  const [a, b] = base.keys
  const [m, n] = base.clusters[0]!.pools
  const found = changed({
    limits: { heartbeat_ms: 1_000 },
    keys: [a, { ...b, secret: 'hush-c', limits: { tokens_per_min: 5 } }],
    clusters: [
      {
        id: 'c',
        pools: [
          { ...m, policy: 'round_robin' },
          { ...n, engines: engines('z', 'w') },
        ],
      },
    ],
  })
  expect(found.toSorted()).toEqual([
    'clusters[0].pools[0].policy.name',
    'clusters[0].pools[1].engines',
    'keys[1].limits',
    'keys[1].secrets[0].secret',
    'limits.heartbeat_ms',
  ])
})

it('a long list ends with the number of the others', () => {
  const keys = (suffix: string) =>
    Array.from({ length: 30 }, (_, at) => ({ name: `k${at}`, secret: `s${at}${suffix}` }))
  const found = changedPaths(configOf({ ...base, keys: keys('') }), configOf({ ...base, keys: keys('x') }))
  expect([found.length, found.at(-1)]).toEqual([21, 'and 10 more'])
})
