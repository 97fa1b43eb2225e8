import { expect, it } from 'vitest'
import { ClusterState } from '../../src/core/pool/pool-state.ts'
import { Failure } from '../../src/failure.ts'
import { LocalCluster } from '../../src/origin/local-cluster.ts'
import { waitForRoom, WaitingRequests } from '../../src/origin/waiting-requests.ts'
import type { Cluster } from '../../src/ports.ts'
import { admission, engine, pool } from '../contracts/cluster-fixtures.ts'

function open(maxRequests: number) {
  const state = new ClusterState({ random: () => 0.5, epoch: 'e' })
  const queue = { maxRequests, maxWaitMs: 5_000 }
  state.configure(1, pool({ engines: [engine('a', { maxInFlight: 1 })], queue }), 0)
  state.admit(admission(), 0)
  return { state, cluster: new LocalCluster(state, () => 0) }
}

const ask = (cluster: Cluster, waits: WaitingRequests, tenant = 'team-a') =>
  waitForRoom({
    cluster,
    waits,
    admission: admission({ tenant }),
    maxWaitMs: 5_000,
    signal: new AbortController().signal,
    scope: { background: () => undefined, client: null, remoteAddress: null },
    timers: undefined,
    now: () => 0,
  })

it('a drain answers 1,000 waiting requests, which leave nothing behind', async () => {
  const { state, cluster } = open(1_000)
  const waits = new WaitingRequests()
  const asked = Array.from({ length: 1_000 }, () => ask(cluster, waits).catch((error: unknown) => error))
  expect(state.waiting).toBe(1_000)
  waits.end(() => new Failure('draining', 'over'), true)
  for (const answer of await Promise.all(asked)) expect(answer).toMatchObject({ reason: 'draining' })
  expect([state.waiting, state.bookings]).toEqual([0, 1])
  await expect(ask(cluster, waits)).rejects.toMatchObject({ reason: 'draining' })
})

it('a removed key ends the wait of its requests only', async () => {
  const { state, cluster } = open(10)
  const waits = new WaitingRequests()
  const gone = ask(cluster, waits, 'gone')
  void ask(cluster, waits, 'kept').catch(() => undefined)
  waits.end((tenant) => (tenant === 'gone' ? new Failure('key_wrong', 'removed') : null), true)
  await expect(gone).rejects.toMatchObject({ reason: 'key_wrong' })
  expect(state.waiting).toBe(1)
  state.configure(2, { ...state.pool!, queue: null }, 0)
})

it('asks once again if the pool state has lost its memory', async () => {
  const { cluster } = open(10)
  const asked: number[] = []
  const lost: Cluster = Object.assign(Object.create(cluster) as Cluster, {
    wait: async (_: unknown, waitedMs: number) => {
      asked.push(waitedMs)
      throw new Error('evicted')
    },
    leave: async () => undefined,
  })
  expect(await ask(lost, new WaitingRequests())).toMatchObject({ refusal: { limit: 'queue' } })
  expect(asked).toHaveLength(2)
})
