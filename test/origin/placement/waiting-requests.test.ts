import { expect, it } from 'vitest'
import { bookingKey } from '../../../src/core/pool/bookings.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { Failure } from '../../../src/failure.ts'
import { LocalPool } from '../../../src/origin/pools/local-pool.ts'
import { type RoomWait, waitForRoom } from '../../../src/origin/placement/wait-for-room.ts'
import { WaitingRequests } from '../../../src/origin/placement/waiting-requests.ts'
import type { PoolPort, PoolQueue } from '../../../src/ports/pool.ts'
import { admission, engine, outcome, pool } from '../../kit/pool-fixtures.ts'
import { defaultTimers } from '../../../src/timers.ts'

function open(maxRequests: number) {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const queue = { maxRequests, maxWaitMs: 5_000 }
  state.configure(1, pool({ engines: [engine('a', { maxInFlight: 1 })], queue }), 0)
  state.admit(admission(), 0)
  return { state, cluster: new LocalPool(state, () => 0) }
}

const ask = (cluster: PoolPort, waitingRequests: WaitingRequests, tenant = 'team-a', more: Partial<RoomWait> = {}) =>
  waitForRoom({
    queue: cluster.queue!,
    waitingRequests,
    admission: admission({ tenant }),
    maxWaitMs: 5_000,
    waitedMs: 0,
    signal: new AbortController().signal,
    scope: { background: () => undefined, client: null, remoteAddress: null },
    timers: defaultTimers,
    now: () => 0,
    ...more,
  })

it('a drain answers 1,000 waiting requests, which leave nothing behind', async () => {
  const { state, cluster } = open(1_000)
  const waitingRequests = new WaitingRequests()
  const pending = Array.from({ length: 1_000 }, () => ask(cluster, waitingRequests).catch((error: unknown) => error))
  expect(state.waiting).toBe(1_000)
  waitingRequests.end(() => new Failure('draining', 'over'), true)
  for (const answer of await Promise.all(pending)) expect(answer).toMatchObject({ reason: 'draining' })
  expect([state.waiting, state.bookings]).toEqual([0, 1])
  await expect(ask(cluster, waitingRequests)).rejects.toMatchObject({ reason: 'draining' })
})

it('a removed key ends the wait of its requests only', async () => {
  const { state, cluster } = open(10)
  const waitingRequests = new WaitingRequests()
  const gone = ask(cluster, waitingRequests, 'gone')
  void ask(cluster, waitingRequests, 'kept').catch(() => undefined)
  waitingRequests.end((tenant) => (tenant === 'gone' ? new Failure('key_wrong', 'removed') : null), true)
  await expect(gone).rejects.toMatchObject({ reason: 'key_wrong' })
  expect(state.waiting).toBe(1)
  state.configure(2, { ...state.pool!, queue: null }, 0)
})

it('a waiting request asks once again if the pool state has lost its memory', async () => {
  const { cluster } = open(10)
  const waits: number[] = []
  const queue: PoolQueue = {
    async wait(_, waitedMs) {
      waits.push(waitedMs)
      throw new Error('evicted')
    },
    leave: async () => undefined,
  }
  const lost: PoolPort = Object.assign(Object.create(cluster) as PoolPort, { queue })
  expect(await ask(lost, new WaitingRequests())).toMatchObject({ refusal: { reason: 'engines_unavailable' } })
  expect(waits).toHaveLength(2)
})

it.each(['before', 'after'])(
  'a client that leaves in the turn %s its request gets a place holds none',
  async (when) => {
    const state = new PoolState({ random: () => 0.5, epoch: 'e' })
    const queue = { maxRequests: 10, maxWaitMs: 5_000 }
    state.configure(1, pool({ engines: [engine('a', { maxInFlight: 1 })], queue }), 0)
    const first = admission()
    state.admit(first, 0)
    const leaving = new AbortController()
    const background: Promise<unknown>[] = []
    const scope = {
      background: (work: Promise<unknown>) => void background.push(work),
      client: null,
      remoteAddress: null,
    }
    const cluster = new LocalPool(state, () => 0)
    const pending = ask(cluster, new WaitingRequests(), 'team-a', { signal: leaving.signal, scope }).catch(() => null)
    if (when === 'before') leaving.abort(new Error('gone'))
    state.release(bookingKey(first), outcome(), 0)
    if (when === 'after') leaving.abort(new Error('gone'))
    // Whoever gets the place releases it.
    const answer = await pending
    if (answer !== null && !('refusal' in answer)) await answer.lease.release(outcome())
    await Promise.all(background)
    expect([state.waiting, state.bookings, state.digest(0).engines[0]!.requests]).toEqual([0, 0, 0])
    expect('refusal' in state.admit(admission(), 0)).toBe(false)
  },
)

it('a gateway answers a waiting request by its own timer if the pool state is late, which then finds a request that has left', async () => {
  const { state, cluster } = open(10)
  const rings: (() => void)[] = []
  const timers = { set: (delayMs: number, ring: () => void) => (rings.push(ring), expect(delayMs).toBe(6_000), timer) }
  const timer = { cancel: () => undefined }
  let arrive = (): void => undefined
  const request = admission()
  const queue: PoolQueue = {
    wait: () => new Promise((resolve) => (arrive = () => resolve(cluster.queue.wait(request, 0)))),
    leave: (key) => cluster.queue.leave(key),
  }
  const late: PoolPort = Object.assign(Object.create(cluster) as PoolPort, { queue })
  const background: Promise<unknown>[] = []
  const scope = {
    background: (work: Promise<unknown>) => void background.push(work),
    client: null,
    remoteAddress: null,
  }
  const answer = ask(late, new WaitingRequests(), 'team-a', { admission: request, timers, scope })
  for (const ring of rings) ring()
  expect(await answer).toMatchObject({ refusal: { reason: 'engines_unavailable' } })
  arrive()
  await Promise.all(background)
  expect([background.length, state.waiting, state.bookings]).toEqual([1, 0, 1])
})
