import { describe, expect, it } from 'vitest'
import { enginesAtOwnAddress } from '../../src/config/listen-conflicts.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { summarise } from '../../src/config/summary.ts'

const gateway = (more: object = {}) => ({
  url: 'https://paris.example.com',
  key: 'hush',
  models: [{ model: 'm', aliases: ['n'] }, { model: 'other' }],
  ...more,
})
const paris = (more: object = {}) => ({ id: 'paris', region: 'eu-west', gateway: gateway(more) })
const tokyo = { id: 'tokyo', gateway: gateway({ url: 'https://tokyo.example.com' }) }
const read = (clusters: readonly object[], document: object = {}) =>
  parseConfig(
    { listen: '127.0.0.1:8080', clusters, ...document },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
const notes = (clusters: readonly object[]) =>
  summarise(read(clusters)).notes.filter((note) => /^(paris|tokyo)/.test(note))

describe('the summary of a cluster behind another gateway', () => {
  it('the summary of another gateway shows that gateway, and no engine, role or policy', () => {
    const [cluster] = summarise(
      read([paris({ headers: { 'X-Token': 'hush2' }, max_in_flight: 9, rtt_ms: 40, digest_interval_ms: 500 }), tokyo]),
    ).clusters
    expect(cluster).toMatchObject({
      id: 'paris',
      region: 'eu-west',
      gateway: { url: 'https://paris.example.com', more: 'key, X-Token, at most 9 requests' },
      settings: { 'round trip': '40 ms', digest: 'at most 500 ms old' },
    })
    expect(cluster!.pools.map(({ model, engines }) => [model, engines])).toEqual([
      ['m', []],
      ['other', []],
    ])
    expect(cluster!.pools[0]!.settings).toMatchObject({
      aliases: 'n',
      tokens: 'from bytes, ratio learned; blocks of 64',
    })
    for (const setting of ['policy', 'probes', 'split']) expect(cluster!.pools[0]!.settings[setting]).toBeUndefined()
    expect(JSON.stringify(cluster)).not.toContain('hush')
  })

  it('the summary of another gateway shows a measured round trip by default', () => {
    expect(summarise(read([paris(), tokyo])).clusters[0]!.settings['round trip']).toBe('measured')
  })

  it('the summary of another gateway has a note if no other cluster has one of its models', () => {
    expect(notes([paris(), tokyo])).toEqual([])
    expect(notes([paris()])).toEqual([
      expect.stringContaining('paris: m, other is served by this cluster only: its predictions do not affect routing'),
    ])
    const engines = { id: 'here', pools: [{ model: 'm', engines: [{ id: 'a', url: 'http://a' }] }] }
    expect(notes([paris(), engines])).toEqual([expect.stringContaining('paris: other is served by this cluster only:')])
  })

  it('the summary of another gateway has a note if its key is sent without encryption, except on loopback or through a binding', () => {
    const clear = 'paris: key and prompts are sent unencrypted'
    expect(notes([paris({ url: 'http://paris.internal:8080' }), tokyo])).toEqual([expect.stringContaining(clear)])
    for (const more of [{ url: 'http://127.0.0.1:9000' }, { url: 'http://paris.internal', binding: 'VPC' }])
      expect(notes([paris(more), tokyo])).toEqual([])
  })

  it('the summary of another gateway has a note if it has no key', () => {
    expect(notes([paris({ key: undefined }), tokyo])).toEqual([expect.stringContaining('paris: has no `key`')])
    expect(notes([paris({ key: undefined, headers: { authorization: 'Bearer hush' } }), tokyo])).toEqual([])
  })

  it('the summary of another gateway has one note if its address is this gateway’s own', () => {
    expect(enginesAtOwnAddress(read([paris({ url: 'http://localhost:8080' }), tokyo]))).toEqual(['paris'])
    expect(notes([paris({ url: 'http://localhost:8080' }), tokyo])).toEqual([
      'paris has the listen address of this gateway: requests would loop.',
    ])
  })
})

describe('a key of another gateway', () => {
  it('a key of another gateway is summarised as another gateway', () => {
    expect(summarise(read([paris()], { keys: [{ name: 'edge', secret: 'hush', edge: true }] })).callers).toBe(
      'edge (all models; another gateway)',
    )
  })
})

it('a missing variable is reported once, however many models the cluster has', () => {
  const found = () =>
    read([paris({ key: { env: 'NOBODY_SET_THIS' }, headers: { 'X-Token': { env: 'NOR_THIS' } } }), tokyo])
  expect(found).toThrow(
    expect.objectContaining({
      problems: [
        expect.objectContaining({ path: 'clusters[0].gateway.key.env' }),
        expect.objectContaining({ path: 'clusters[0].gateway.headers.X-Token.env' }),
      ],
    }),
  )
})

it('a cluster has either pools or a gateway', () => {
  const either = {
    problems: [
      expect.objectContaining({ path: 'clusters[0]', rule: 'must have either `pools` of engines or a `gateway`' }),
    ],
  }
  expect(() => read([{ id: 'paris' }])).toThrow(expect.objectContaining(either))
  const taken = {
    problems: [
      expect.objectContaining({
        path: 'clusters[0].gateway.models[1].aliases[0]',
        rule: 'duplicates clusters[0].gateway.models[0].model',
      }),
    ],
  }
  expect(() => read([paris({ models: [{ model: 'm' }, { model: 'o', aliases: ['m'] }] })])).toThrow(
    expect.objectContaining(taken),
  )
})
