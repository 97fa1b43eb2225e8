/** A fleet of pods that come and go, behind a gateway process with sockets. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import type { Config } from '../../../src/config.ts'
import { Discovery } from '../../../src/platform/node/discovery.ts'
import { quiet } from '../threads/quiet.ts'
import { FakeApi } from './fake-api.ts'

let api: FakeApi
let engines: FakeEngine
let port: number
let folder: string
let discovery: Discovery
let logged: (readonly [string, Readonly<Record<string, unknown>> | undefined])[]
let stop: () => void
/** By address. */
const models = new Map<string, readonly string[]>()

beforeEach(async () => {
  models.clear()
  logged = []
  engines = await FakeEngine.open(
    {
      '*': ({ address }) => {
        const list = models.get(address)
        return list === undefined ? { status: 503, body: {} } : { body: { data: list.map((id) => ({ id })) } }
      },
    },
    { host: '0.0.0.0' },
  )
  port = engines.port
  folder = mkdtempSync(join(tmpdir(), 'firstlight-kubernetes-'))
  api = new FakeApi()
  writeFileSync(join(folder, 'token'), 'secret-token\n')
  const kubeconfig = {
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x', namespace: 'llm' } }],
    clusters: [{ name: 'x', cluster: { server: await api.listen() } }],
    users: [{ name: 'x', user: { tokenFile: 'token' } }],
  }
  writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig))
  discovery = new Discovery({
    lookup: async () => [],
    log: { ...quiet, warn: (event, fields) => void logged.push([event, fields]) },
    env: { KUBECONFIG: join(folder, 'kubeconfig') },
  })
  stop = () => discovery.close()
})
afterEach(async () => {
  stop()
  await api.close()
  await engines.close()
  rmSync(folder, { recursive: true })
})

const configOf = (kubernetes: object = {}, more: object = {}): Config => {
  const engine = {
    url: `http://pods:${port}`,
    discover: 'kubernetes',
    kubernetes: { selector: 'app=vllm', ...kubernetes },
    ...more,
  }
  const poolOf = (model: string, id: string) => ({ model, discover_interval_ms: 100, engines: [{ id, ...engine }] })
  const pools = [poolOf('m', 'e'), poolOf('n', 'f')]
  return parseConfig(
    { clusters: [{ id: 'c', pools }] },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
}
const idsIn = (config: Config, pool = 0): string[] => config.clusters[0]!.pools[pool]!.engines.map(({ id }) => id)

/** Follows the configuration; returns the present engines of its first pool. */
async function following(config: Config): Promise<() => readonly string[]> {
  let present = await discovery.resolve(config)
  discovery.settle(config)
  stop = discovery.watch(() => {
    void discovery.resolve(config).then((next) => {
      present = next
      discovery.settle(config)
    })
  })
  return () => idsIn(present)
}

it('ready pods are engines of the pool whose model they list', async () => {
  models.set('127.0.0.1', ['m']).set('127.0.0.2', ['n']).set('127.0.0.3', ['m', 'n'])
  for (const at of [1, 2, 3]) api.set({ name: `p${at}`, address: `127.0.0.${at}` })
  const config = await discovery.resolve(configOf())
  expect(idsIn(config, 0)).toEqual(['e-127.0.0.1', 'e-127.0.0.3'])
  // An engine belongs to one pool of a cluster, the first.
  expect(idsIn(config, 1)).toEqual(['f-127.0.0.2'])
  expect(config.clusters[0]!.pools[0]!.engines[0]).toMatchObject({
    url: `http://127.0.0.1:${port}`,
    discover: null,
    kubernetes: null,
    labels: { pod: 'p1' },
  })
  expect(api.requests[0]!.pathname).toBe('/api/v1/namespaces/llm/pods')
  expect(api.requests[0]!.searchParams.get('labelSelector')).toBe('app=vllm')
  expect(api.tokens[0]).toBe('Bearer secret-token')
})

it('pods that are not Ready, terminating, completed or without an address are no engines', async () => {
  for (const at of [1, 2, 3, 4, 5]) models.set(`127.0.0.${at}`, ['m'])
  api.set({ name: 'unready', address: '127.0.0.1', ready: false })
  api.set({ name: 'ending', address: '127.0.0.2', terminating: true })
  api.set({ name: 'failed', address: '127.0.0.3', phase: 'Failed' })
  api.set({ name: 'young' })
  api.set({ name: 'good', address: '127.0.0.5' })
  expect(idsIn(await discovery.resolve(configOf()))).toEqual(['e-127.0.0.5'])
})

it('pods come and go with their events, also after an orderly end of the watch and a broken line', async () => {
  models.set('127.0.0.1', ['m']).set('127.0.0.2', ['m'])
  const present = await following(configOf())
  expect(present()).toEqual([])
  expect(logged.map(([event]) => event)).toEqual(['no_engines_found'])
  api.set({ name: 'one' })
  api.set({ name: 'one', address: '127.0.0.1', ready: false })
  api.set({ name: 'one', address: '127.0.0.1' })
  await expect.poll(present).toEqual(['e-127.0.0.1'])
  api.bookmark()
  api.endWatches()
  await expect.poll(() => api.requests.at(-1)!.searchParams.get('resourceVersion')).toBe('104')
  api.set({ name: 'two', address: '127.0.0.2' })
  await expect.poll(present).toEqual(['e-127.0.0.1', 'e-127.0.0.2'])
  api.breakWatches()
  api.delete('one')
  await expect.poll(present).toEqual(['e-127.0.0.2'])
  api.set({ name: 'two', address: '127.0.0.2', terminating: true })
  await expect.poll(present).toEqual([])
  // One list at the start; the rest are watches that resumed.
  expect(api.requests.filter((url) => url.searchParams.get('watch') === null)).toHaveLength(1)
})

it('a version that expired leads to a new list, which contains the missed deletion', async () => {
  models.set('127.0.0.1', ['m']).set('127.0.0.2', ['m'])
  api.set({ name: 'one', address: '127.0.0.1' })
  const present = await following(configOf())
  await expect.poll(() => api.watching).toBe(1)
  api.changeSilently(() => {
    api.delete('one')
    api.set({ name: 'two', address: '127.0.0.2' })
  })
  await expect.poll(present).toEqual(['e-127.0.0.2'])
  expect(api.requests.filter((url) => url.searchParams.get('watch') === null)).toHaveLength(2)
})

it('engines stay while the API server refuses, and the log names the missing permission', async () => {
  models.set('127.0.0.1', ['m']).set('127.0.0.2', ['m'])
  api.set({ name: 'one', address: '127.0.0.1' })
  const present = await following(configOf())
  await expect.poll(() => api.watching).toBe(1)
  api.status = 403
  api.endWatches()
  await expect.poll(() => logged.length).toBe(1)
  expect(logged[0]).toEqual(['kubernetes_watch_failed', expect.objectContaining({ code: 403 })])
  expect(String(logged[0]![1]!['next'])).toContain('namespace llm')
  expect(present()).toEqual(['e-127.0.0.1'])
  api.status = 200
  api.set({ name: 'two', address: '127.0.0.2' })
  await expect.poll(present).toEqual(['e-127.0.0.1', 'e-127.0.0.2'])
})

it('lists of several pages are read to the end', async () => {
  api.pageSize = 2
  for (const at of [1, 2, 3, 4, 5]) {
    models.set(`127.0.0.${at}`, ['m'])
    api.set({ name: `p${at}`, address: `127.0.0.${at}` })
  }
  expect(idsIn(await discovery.resolve(configOf()))).toHaveLength(5)
})

it('a pod whose server answers later is asked again, and keeps its models while it does not answer', async () => {
  api.set({ name: 'one', address: '127.0.0.1' })
  const present = await following(configOf())
  expect(present()).toEqual([])
  models.set('127.0.0.1', ['m'])
  await expect.poll(present).toEqual(['e-127.0.0.1'])
  models.delete('127.0.0.1')
  api.set({ name: 'one', address: '127.0.0.1', labels: { changed: 'yes' } })
  api.set({ name: 'two', address: '127.0.0.2' })
  models.set('127.0.0.2', ['m'])
  await expect.poll(present).toEqual(['e-127.0.0.1', 'e-127.0.0.2'])
})

it('discovery asks pods for their models, and not for their sleep state', async () => {
  models.set('127.0.0.1', ['m'])
  api.set({ name: 'one', address: '127.0.0.1' })
  expect(idsIn(await discovery.resolve(configOf()))).toEqual(['e-127.0.0.1'])
  expect(new Set(engines.calls)).toEqual(new Set(['GET /v1/models']))
})

it('discovery asks pods for nothing if all of them match', async () => {
  api.set({ name: 'one', address: '127.0.0.1' })
  expect(idsIn(await discovery.resolve(configOf({ match: 'all' })))).toEqual(['e-127.0.0.1'])
  expect(engines.calls).toEqual([])
})

it('labels as a whole give the role; annotations give weight and KV events; the port may have a name', async () => {
  for (const at of [1, 2, 3]) models.set(`127.0.0.${at}`, ['m'])
  const annotations = { 'firstlight/weight': '2.5', 'firstlight/kv-events': 'tcp://*:5557' }
  api.set({ name: 'p', address: '127.0.0.1', port, labels: { model: 'llama-prefill' }, annotations })
  api.set({ name: 'd', address: '127.0.0.2', port, labels: { model: 'decode' } })
  // `llama` is a part of `llama-prefill`, which must not match.
  api.set({
    name: 'a',
    address: '127.0.0.3',
    port,
    labels: { model: 'llama' },
    annotations: { 'firstlight/weight': 'much' },
  })
  const labels = { prefill_labels: ['model=llama-prefill'], decode_labels: ['model=decode'] }
  const config = await discovery.resolve(configOf({ port: 'http', ...labels }, { url: 'http://pods' }))
  const pool = config.clusters[0]!.pools[0]!
  expect(pool.engines).toMatchObject([
    { role: 'prefill', weight: 2.5, kvEvents: { endpoint: 'tcp://127.0.0.1:5557', replayEndpoint: null } },
    { role: 'decode', weight: 1, kvEvents: null },
    { role: 'any', weight: 1, url: `http://127.0.0.3:${port}` },
  ])
  expect(pool.split.mode).toBe('always')
  expect(logged).toEqual([['pod_annotation_ignored', expect.objectContaining({ pod: 'a' })]])
})

it('pods that share the address of a node are engines by their ports, and go one by one', async () => {
  const other = await FakeEngine.open({ '*': { body: { data: [{ id: 'm' }] } } }, { host: '0.0.0.0' })
  models.set('127.0.0.1', ['m'])
  api.set({ name: 'one', address: '127.0.0.1', port })
  api.set({ name: 'two', address: '127.0.0.1', port: other.port })
  const present = await following(configOf({ port: 'http' }))
  const ids = ['e-127.0.0.1', `e-127.0.0.1_${other.port}`]
  await expect.poll(() => present().toSorted()).toEqual(ids)
  expect(logged.map(([event]) => event)).not.toContain('engines_left_out')
  api.set({ name: 'one', address: '127.0.0.1', port, ready: false })
  await expect.poll(present).toEqual([ids[1]])
  await other.close()
})

it('with `match: all` every pod serves the pool, without a list of models', async () => {
  api.set({ name: 'one', address: '127.0.0.1' })
  expect(idsIn(await discovery.resolve(configOf({ match: 'all' })))).toEqual(['e-127.0.0.1'])
})

it('without a service account and a kubeconfig the start fails and names both', async () => {
  const nowhere = new Discovery({ lookup: async () => [], log: quiet, env: { HOME: folder } })
  await expect(nowhere.resolve(configOf())).rejects.toThrow(/service account or a kubeconfig/)
})
