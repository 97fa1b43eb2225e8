import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { durablePools } from '../../src/platform/workers/durable-pools.ts'
import { workersPorts } from '../../src/platform/workers/ports.ts'
import { capacityContract } from '../contracts/capacity.ts'
import { circuitContract } from '../contracts/circuits.ts'
import { admitted, clusterContract } from '../contracts/cluster.ts'
import { admission, engine, engines, outcome, pool } from '../kit/pool-fixtures.ts'
import { engineWaitContract } from '../contracts/engine-wait.ts'
import { kvFeedContract } from '../contracts/kv-feed.ts'
import { queueContract } from '../contracts/queue.ts'
import { openCluster } from './open-cluster.ts'

clusterContract('durablePools', openCluster)
circuitContract('durablePools', openCluster)
kvFeedContract('durablePools', openCluster)
queueContract('durablePools', openCluster)
engineWaitContract('durablePools', openCluster)
capacityContract('durablePools', openCluster)

it('a pool with a jurisdiction has its object there', async () => {
  const objects: string[] = []
  const stub = { admit: async () => ({ refusal: { reason: 'no_engine', detail: 'x', retryAfterMs: 1 } }) }
  const within = (place: string) => ({
    idFromName: (name: string) => `${place} ${name}`,
    get(id: string) {
      objects.push(id)
      return stub
    },
    jurisdiction: within,
  })
  const namespace = within('anywhere') as unknown as typeof env.CLUSTER
  const place = { version: 1, pool: pool(), isRegional: false, generation: 1, locationHint: null }
  for (const jurisdiction of [null, 'eu'])
    await durablePools(namespace, { source: () => ({ ...place, jurisdiction }) })('paris', 'qwen').admit(admission())
  expect(objects).toEqual(['anywhere cluster:paris:qwen:g1', 'eu cluster:paris:qwen:g1'])
})

it('a pool’s object is opened near the engines of its cluster, as configured, with every call', async () => {
  const hints: unknown[] = []
  const stub = { admit: async () => ({ refusal: { reason: 'no_engine', detail: 'x', retryAfterMs: 1 } }) }
  const CLUSTER = {
    idFromName: (name: string) => name,
    get(_: string, options: { readonly locationHint?: string }) {
      hints.push(options?.locationHint)
      return stub
    },
  } as unknown as typeof env.CLUSTER
  const cluster = (id: string, more: object) => ({
    id,
    ...more,
    pools: [{ model: 'qwen', engines: [{ id: `of-${id}`, url: `http://${id}` }] }],
  })
  const config = parseConfig(
    { open: true, clusters: [cluster('paris', { location_hint: 'weur' }), cluster('oregon', {})] },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: false },
  )
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const { pool: poolOf } = workersPorts(config, { ...env, CLUSTER }, log, null)
  for (const name of ['paris', 'paris', 'oregon']) await poolOf(name, 'qwen').admit(admission())
  expect(hints).toEqual(['weur', 'weur', undefined])
})

it('an object that refuses 1,000 requests at once is asked for fewer than 400 of them', async () => {
  const opened = await openCluster({ version: 1, pool: pool({ engines: [engine('a')], maxWaiting: 1 }) })
  const { lease } = await admitted(opened.cluster.admit(admission()))
  for (let round = 0; round < 1_000; round++) {
    const answer = await opened.cluster.admit(admission())
    expect('refusal' in answer && answer.refusal.limit).toBe('waiting')
  }
  // The next answer of the object comes with the report of the last refusals.
  await opened.advance(1_000)
  await opened.cluster.admit(admission())
  const { decisions = [] } = await opened.cluster.digest()
  const counted = (reason: string): number => decisions.find(({ refused }) => refused === reason)?.count ?? 0
  expect(counted('overloaded_waiting')).toBeLessThan(400)
  expect(counted('overloaded_waiting') + counted('overloaded_edge')).toBe(1_001)
  await lease.release(outcome())
  await opened.close()
})

it('bookings from before a division over more objects are released where they were made', async () => {
  const placeOf = (generation: number, shards: number) => ({
    version: generation,
    pool: pool({ engines: engines('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h') }),
    isRegional: false,
    generation,
    locationHint: null,
    shards,
  })
  const clusterOf = (generation: number, shards: number) =>
    durablePools(env.CLUSTER, { source: () => placeOf(generation, shards) })('divided', 'qwen')
  const [before, after] = [clusterOf(1, 1), clusterOf(2, 4)]
  const old = await admitted(before.admit(admission()))
  for (let n = 0; n < 8; n++) await admitted(after.admit(admission({ id: `after-${n}`, session: `s${n}` })))
  await old.lease.release(outcome())
  expect((await before.digest()).bookings).toBe(0)
  expect((await after.digest()).bookings).toBe(8)
})
