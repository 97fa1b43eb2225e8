import { expect, it } from 'vitest'
import { regionsIn } from '../../src/config/own-document.ts'
import { parseConfig, parseConfigText } from '../../src/config/parse.ts'
import { ConfigError } from '../../src/config/problem.ts'

const options = { defaultVersion: 1, defaultObserveShare: 1, listens: true, sha256: (text: string) => text }

const region = (id: string, more: object = {}, gateway: object = {}) => ({
  id,
  region: `${id}-1`,
  gateway: { url: `http://${id}.example`, key: { env: `${id.toUpperCase()}_KEY` }, ...gateway },
  pools: [
    {
      model: 'm',
      aliases: ['alias'],
      adapters: { names: ['one', { name: 'two', path: '/two' }], load: true, path: '/{name}' },
      block_tokens: 32,
      policy: 'round_robin',
      engines: [{ id: `of-${id}`, url: `http://10.0.0.1:8000` }],
    },
  ],
  ...more,
})

const documentOf = (...clusters: readonly object[]) => ({
  version: 7,
  keys: [{ name: 'ada', secret: { env: 'ADA_KEY' } }],
  admin: { secret: { env: 'ADMIN_KEY' } },
  limits: { max_n: 5 },
  region_preference: { order: ['paris-1'] },
  clusters,
})

const EDGE_ENV = { ADA_KEY: 'ada-key', ADMIN_KEY: 'admin-key', PARIS_KEY: 'paris-key', TOKYO_KEY: 'tokyo-key' }

function problemsOf(document: object, of: string | null = null): readonly string[] {
  const any = new Proxy({}, { get: (_, name) => `value-of-${String(name)}` })
  try {
    parseConfig(document, any, { ...options, region: of })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, value, rule }) => `${path}: ${value}: ${rule}`)
  }
  return []
}

it('the edge of one document has the gateways of the regions, with the models of their pools and the common admin key', () => {
  const config = parseConfig(documentOf(region('paris'), region('tokyo')), EDGE_ENV, options)
  expect(config.keys!.map(({ name }) => name)).toEqual(['ada'])
  expect(config.clusters.map(({ id, region: place, gateway }) => [id, place, gateway!.key, gateway!.adminKey])).toEqual(
    [
      ['paris', 'paris-1', 'paris-key', 'admin-key'],
      ['tokyo', 'tokyo-1', 'tokyo-key', 'admin-key'],
    ],
  )
  const [pool] = config.clusters[0]!.pools
  expect(pool).toMatchObject({ model: 'm', aliases: ['alias'], adapters: ['one', 'two'], blockTokens: 32 })
  expect(pool!.engines.map(({ id }) => id)).toEqual(['paris'])
})

it('the edge of one document gets no adapters of a region whose engines report them', () => {
  const auto = region('paris', {
    pools: [{ model: 'm', adapters: 'auto', engines: [{ id: 'a', url: 'http://10.0.0.1' }] }],
  })
  const pools = (options_: object) =>
    parseConfig(documentOf(auto, region('tokyo')), EDGE_ENV, { ...options, ...options_ }).clusters[0]!.pools
  expect(pools({})[0]).toMatchObject({ model: 'm', adapters: [], reportsAdapters: false })
  expect(pools({ region: 'paris' })[0]).toMatchObject({ adapters: [], reportsAdapters: true })
})

it('a region of one document has its pools, the key of the edge and common settings, and needs no other variable', () => {
  const settings = { listen: '0.0.0.0:9000', log: { level: 'debug' }, keys: [{ name: 'local', secret: 'local-key' }] }
  const document = documentOf(region('paris'), region('tokyo', { settings }))
  const env = { ADMIN_KEY: 'admin-key', TOKYO_KEY: 'tokyo-key' }
  const config = parseConfig(document, env, { ...options, region: 'tokyo' })
  expect(config).toMatchObject({ version: 7, listen: { port: 9000 }, log: { level: 'debug' }, limits: { maxN: 5 } })
  expect(config.regionPreference).toBeNull()
  expect(config.keys).toMatchObject([
    { name: 'edge', edge: true, allowOverrides: true, secrets: [{ secret: 'tokyo-key' }] },
    { name: 'local', edge: false },
  ])
  expect(config.clusters.map(({ id, gateway, pools }) => [id, gateway, pools[0]!.policy.name])).toEqual([
    ['tokyo', null, 'round_robin'],
  ])
  expect(config.clusters[0]!.pools[0]!.adapterLoading).not.toBeNull()
})

it('an edge of one document may have engines of its own, and a document without regions is unchanged', () => {
  const own = { id: 'own', pools: [{ model: 'm', engines: [{ id: 'e', url: 'http://10.0.0.9:8000' }] }] }
  const config = parseConfig(documentOf(region('paris'), own), EDGE_ENV, options)
  expect(config.clusters.map(({ id, gateway }) => [id, gateway === null])).toEqual([
    ['paris', false],
    ['own', true],
  ])
  expect(regionsIn(documentOf(region('paris'), own))).toEqual(['paris'])
  expect(regionsIn({ clusters: 'nonsense' })).toEqual([])
})

it.each([
  [
    documentOf(region('paris')),
    'pariss',
    'clusters: null: has no cluster "pariss" with `pools` and a `gateway`, which FIRSTLIGHT_REGION names; did you mean "paris"?',
  ],
  [
    documentOf(region('paris', {}, { key: undefined })),
    null,
    'clusters[0].gateway.key: null: is required beside `pools`: the region accepts it as the key of the edge',
  ],
  [
    documentOf(region('paris', {}, { models: [{ model: 'm' }] })),
    null,
    'clusters[0].gateway.models: null: contradicts `pools`, which name the models: leave it out',
  ],
  [
    documentOf(region('paris', { settings: 'x' })),
    null,
    'clusters[0].settings: "x": must be an object with keys of the document',
  ],
  [
    documentOf(region('paris', { settings: { listne: 'x' } })),
    'paris',
    'clusters[0].settings.listne: "x": is not a known key; did you mean "listen"?',
  ],
  [
    documentOf(region('tokyo'), region('paris', { pools: [{ model: 'm', block_tokens: -1, engines: [] }] })),
    null,
    'clusters[1].pools[0].block_tokens: -1: must be at least 1',
  ],
])('one document with an error is refused with the path in the whole of it: %#', (document, of, problem) => {
  expect(problemsOf(document, of)[0]).toBe(problem)
})

it('settings of a cluster without both sides are refused', () => {
  const own = { id: 'own', settings: {}, pools: [{ model: 'm', engines: [{ id: 'e', url: 'http://10.0.0.9:8000' }] }] }
  const document = { open: true, clusters: [own] }
  expect(problemsOf(document)).toEqual([
    'clusters[0].settings: null: belongs to a cluster with `pools` and a `gateway`',
  ])
})

it('an error of a region has the line of the whole text', () => {
  const text = `clusters:
  - id: paris
    gateway: { url: http://paris.example, key: k }
    pools:
      - model: m
        engines: [{ id: a, url: nonsense }]
`
  try {
    parseConfigText(text, {}, { ...options, region: 'paris' })
    expect.unreachable()
  } catch (error) {
    expect((error as ConfigError).problems).toMatchObject([{ path: 'clusters[0].pools[0].engines[0].url', line: 6 }])
  }
})
