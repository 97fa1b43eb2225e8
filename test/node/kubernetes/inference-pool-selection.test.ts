/** Engines and priorities from an InferencePool and its objectives, with an API server in memory. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import type { Config } from '../../../src/config.ts'
import { Discovery } from '../../../src/platform/node/discovery.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { quiet } from '../threads/quiet.ts'
import { FakeApi } from './fake-api.ts'

const POOLS = 'inferencepools'
const OBJECTIVES = 'inferenceobjectives'

let api: FakeApi
/** Two servers at each loopback address, as two ranks of a pod. */
let servers: readonly FakeEngine[]
let ports: readonly number[]
let folder: string
let discovery: Discovery
let logged: (readonly [string, Readonly<Record<string, unknown>> | undefined])[]
let stop: () => void
let present: Config

beforeEach(async () => {
  logged = []
  const routes = { 'GET /is_sleeping': { status: 404, body: {} }, '*': { body: { data: [{ id: 'm' }] } } }
  servers = [await FakeEngine.open(routes, { host: '0.0.0.0' }), await FakeEngine.open(routes, { host: '0.0.0.0' })]
  ports = servers.map(({ port }) => port)
  folder = mkdtempSync(join(tmpdir(), 'firstlight-pool-'))
  api = new FakeApi()
  const kubeconfig = {
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x', namespace: 'llm' } }],
    clusters: [{ name: 'x', cluster: { server: await api.listen() } }],
    users: [{ name: 'x', user: {} }],
  }
  writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig))
  const log = (event: string, fields?: Readonly<Record<string, unknown>>) => void logged.push([event, fields])
  discovery = new Discovery({
    lookup: async () => [],
    log: { ...quiet, warn: log },
    env: { KUBECONFIG: join(folder, 'kubeconfig') },
  })
  stop = () => discovery.close()
})
afterEach(async () => {
  stop()
  await api.close()
  for (const server of servers) await server.close()
  rmSync(folder, { recursive: true })
})

const config = (epp: object | null = null): Config => {
  const engine = { id: 'e', url: 'http://pods', discover: 'inferencepool', kubernetes: { pool: 'qwen' } }
  const pools = [{ model: 'm', discover_interval_ms: 100, engines: [engine] }]
  return parseConfig(
    { listen: '127.0.0.1:8080', clusters: [{ id: 'c', pools }], ...(epp === null ? {} : { epp }) },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
}

const poolSpec = (numbers: readonly number[], more: object = {}) => ({
  selector: { matchLabels: { app: 'vllm', tier: 'gpu' } },
  targetPorts: numbers.map((number) => ({ number })),
  endpointPickerRef: { name: 'firstlight', port: { number: 9002 }, failureMode: 'FailOpen' },
  ...more,
})

async function follow(written: Config): Promise<void> {
  present = await discovery.resolve(written)
  discovery.settle(written)
  stop = discovery.watch(() => {
    void discovery.resolve(written).then((next) => {
      present = next
      discovery.settle(written)
    })
  })
}

const urls = (): string[] => present.clusters[0]!.pools[0]!.engines.map(({ url }) => new URL(url).host)
const malformed = () => logged.filter(([event]) => event === 'kubernetes_resource_malformed')
const events = (): string[] => logged.map(([event]) => event)
const at = (host: number, rank: number): string => `127.0.0.${host}:${ports[rank]}`
const sorted = (...hosts: string[]): string[] => hosts.toSorted()

it('pods of an InferencePool are engines, one for each target port, and the pool is only read', async () => {
  api.setResource(POOLS, 'other', poolSpec([1]))
  api.setResource(POOLS, 'qwen', poolSpec(ports))
  api.set({ name: 'one', address: '127.0.0.1', annotations: { 'firstlight/kv-events': '5557' } })
  const limit = { 'inference.networking.k8s.io/active-ports': `${ports[1]}` }
  api.set({ name: 'two', address: '127.0.0.2', annotations: limit })
  await follow(config())
  await expect.poll(() => urls().toSorted()).toEqual(sorted(at(1, 0), at(1, 1), at(2, 1)))
  const ranks = present.clusters[0]!.pools[0]!.engines.filter(({ labels }) => labels['pod'] === 'one')
  expect(ranks.find(({ labels }) => labels['rank'] === '1')).toMatchObject({
    id: `e-127.0.0.1_${ports[1]}`,
    url: `http://${at(1, 1)}`,
    kvEvents: { endpoint: 'tcp://127.0.0.1:5558' },
  })
  const [pools, pods] = [POOLS, 'pods'].map((name) => api.requests.find(({ pathname }) => pathname.endsWith(name))!)
  expect([pools!.pathname, pools!.searchParams.get('fieldSelector')]).toEqual([
    '/apis/inference.networking.k8s.io/v1/namespaces/llm/inferencepools',
    'metadata.name=qwen',
  ])
  expect(pods!.searchParams.get('labelSelector')).toBe('app=vllm,tier=gpu')
  expect(new Set(api.methods)).toEqual(new Set(['GET']))
  expect(present.discovered).toEqual({ objectives: {}, malformed: 0 })
  expect(malformed()).toEqual([])
})

it('pods of a selector are engines, one for each of their ports, with the ranks behind each', async () => {
  api.set({ name: 'one', address: '127.0.0.1', annotations: { 'firstlight/kv-events': '5557' } })
  const kubernetes = { selector: 'app=vllm', ports: [...ports] }
  const engine = { id: 'e', url: 'http://pods', discover: 'kubernetes', kubernetes, data_parallel: 'auto' }
  const pools = [{ model: 'm', discover_interval_ms: 100, engines: [engine] }]
  const runtime = { defaultVersion: 1, defaultObserveShare: 1, listens: true }
  await follow(parseConfig({ listen: '127.0.0.1:8080', clusters: [{ id: 'c', pools }] }, {}, runtime))
  await expect.poll(() => urls().toSorted()).toEqual(sorted(at(1, 0), at(1, 1)))
  const { engines } = present.clusters[0]!.pools[0]!
  expect(engines.find(({ labels }) => labels['rank'] === '1')).toMatchObject({
    id: `e-127.0.0.1_${ports[1]}`,
    labels: { pod: 'one' },
    kvEvents: { endpoint: 'tcp://127.0.0.1:5558' },
    dataParallel: 'auto',
  })
})

it('an InferencePool that changes its ports or appears late changes the engines, and one that is deleted has none', async () => {
  api.set({ name: 'one', address: '127.0.0.1' })
  await follow(config())
  expect(urls()).toEqual([])
  await expect.poll(events).toContain('inference_pool_missing')
  api.setResource(POOLS, 'qwen', poolSpec([ports[0]!]))
  await expect.poll(urls).toEqual([at(1, 0)])
  api.setResource(POOLS, 'qwen', poolSpec([ports[1]!]))
  await expect.poll(urls).toEqual([at(1, 1)])
  api.delete('qwen', POOLS)
  await expect.poll(urls).toEqual([])
})

it.each([
  ['no labels', { selector: { matchLabels: {} } }, /matchLabels has no labels/],
  ['labels that add a selector', { selector: { matchLabels: { app: 'a,b!=c' } } }, /"app" is not a label/],
  ['no ports', { targetPorts: [] }, /targetPorts: must be 1 to 8/],
  ['a port twice', { targetPorts: [{ number: 1 }, { number: 1 }] }, /different numbers/],
  ['a text as port', { targetPorts: [{ number: '8000' }] }, /targetPorts/],
  ['null as port', { targetPorts: [null] }, /targetPorts/],
  ['HTTP/2 without TLS', { appProtocol: 'kubernetes.io/h2c' }, /h2c" is not supported/],
] as const)('an InferencePool with %s is reported once and changes nothing that works', async (_name, change, why) => {
  api.set({ name: 'one', address: '127.0.0.1' })
  api.setResource(POOLS, 'qwen', poolSpec([ports[0]!]))
  await follow(config())
  await expect.poll(urls).toEqual([at(1, 0)])
  api.setResource(POOLS, 'qwen', poolSpec([ports[1]!], change))
  await expect.poll(() => present.discovered?.malformed).toBe(1)
  api.setResource(POOLS, 'qwen', poolSpec([ports[1]!], change))
  expect(malformed()).toEqual([
    [
      'kubernetes_resource_malformed',
      expect.objectContaining({ kind: 'InferencePool', why: expect.stringMatching(why) }),
    ],
  ])
  // Pods of the version in use still come and go.
  api.set({ name: 'two', address: '127.0.0.2' })
  await expect.poll(() => urls().toSorted()).toEqual(sorted(at(1, 0), at(2, 0)))
  expect(malformed()).toHaveLength(1)
  api.setResource(POOLS, 'qwen', poolSpec([ports[1]!]))
  await expect.poll(() => urls().toSorted()).toEqual(sorted(at(1, 1), at(2, 1)))
  expect(present.discovered?.malformed).toBe(0)
})

it('an InferencePool without a spec, from the start, leaves the pool without engines until it is corrected', async () => {
  api.set({ name: 'one', address: '127.0.0.1' })
  api.setResource(POOLS, 'qwen', undefined)
  await follow(config())
  await expect.poll(() => [urls(), present.discovered?.malformed]).toEqual([[], 1])
  api.setResource(POOLS, 'qwen', poolSpec([ports[0]!]))
  await expect.poll(urls).toEqual([at(1, 0)])
})

it('an API server without InferencePools is reported with what to install', async () => {
  api.status = 404
  await follow(config())
  await expect
    .poll(() => logged.find(([event]) => event === 'kubernetes_watch_failed'))
    .toEqual([
      'kubernetes_watch_failed',
      expect.objectContaining({ code: 404, next: expect.stringContaining('custom resource definition') }),
    ])
})

it('priorities of objectives come with their resources, for the configured pools, and malformed ones are kept out', async () => {
  api.setResource(POOLS, 'qwen', poolSpec([ports[0]!]))
  api.setResource(OBJECTIVES, 'chat', { priority: 5, poolRef: { name: 'qwen' } })
  api.setResource(OBJECTIVES, 'plain', { poolRef: { name: 'qwen' } })
  api.setResource(OBJECTIVES, 'foreign', { priority: 9, poolRef: { name: 'other' } })
  api.setResource(OBJECTIVES, 'broken', { priority: 'high', poolRef: { name: 'qwen' } })
  await follow(config({ read_objectives: true }))
  await expect.poll(() => present.discovered).toEqual({ objectives: { chat: 5, plain: 0 }, malformed: 1 })
  api.setResource(OBJECTIVES, 'chat', { priority: 1.5, poolRef: { name: 'qwen' } })
  await expect.poll(() => present.discovered).toEqual({ objectives: { chat: 5, plain: 0 }, malformed: 2 })
  api.setResource(OBJECTIVES, 'chat', { priority: -5, poolRef: { name: 'qwen' } })
  api.delete('broken', OBJECTIVES)
  await expect.poll(() => present.discovered).toEqual({ objectives: { chat: -5, plain: 0 }, malformed: 0 })
  api.delete('chat', OBJECTIVES)
  await expect.poll(() => present.discovered).toEqual({ objectives: { plain: 0 }, malformed: 0 })
  expect(malformed()).toHaveLength(2)
})

it('objectives are read only where `read_objectives` is set', async () => {
  api.setResource(POOLS, 'qwen', poolSpec([ports[0]!]))
  await follow(config({}))
  expect(api.requests.some(({ pathname }) => pathname.endsWith(OBJECTIVES))).toBe(false)
})

it('resources report that the pods are not listed, until the API server has listed them', async () => {
  api.setResource(POOLS, 'qwen', poolSpec([ports[0]!]))
  api.status = 503
  await follow(config())
  expect(present.discovered).toEqual({ objectives: {}, malformed: 0, isListed: false })
  api.status = 200
  await expect.poll(() => present.discovered, { timeout: 10_000 }).toEqual({ objectives: {}, malformed: 0 })
})
