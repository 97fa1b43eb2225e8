import {
  abortAllDurableObjects,
  evictDurableObject,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ClusterObject as ClusterObjectBase, type ClusterObject } from '../../durable/cluster-object.ts'
import { bookingKey } from '../../src/core/pool/bookings.ts'
import type { Admission } from '../../src/core/contract/admission.ts'
import type { EngineSignal } from '../../src/core/contract/engine-signal.ts'
import type { Placement } from '../../src/core/contract/placement.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import type { Refusal } from '../../src/core/contract/refusal.ts'
import type { BookingEvent } from '../../src/core/contract/booking-event.ts'
import { waitForRoom } from '../../src/origin/placement/wait-for-room.ts'
import { WaitingRequests } from '../../src/origin/placement/waiting-requests.ts'
import { durablePools, objectName } from '../../src/platform/workers/durable-pools.ts'
import { ClusterObject as ProbedObject } from '../../src/worker.ts'
import { admitted, requestsOf } from '../contracts/cluster.ts'
import { admission, engine, engines, outcome, pool, probe, stats } from '../kit/pool-fixtures.ts'
import { turns, until } from '../wait.ts'
import { clock } from './cluster-clock.ts'
import { defaultTimers } from '../../src/timers.ts'

let generation = 1_000

/** The probe that the Worker's entry gives to the object. */
const lent = ProbedObject.prototype as unknown as { probe(pool: PoolConfig): Promise<readonly EngineSignal[]> }
const ownProbe = lent.probe

beforeEach(() => {
  lent.probe = async () => []
})

afterEach(async () => {
  lent.probe = ownProbe
  await reset()
})

function open(changes: Partial<PoolConfig> = {}) {
  generation += 1
  const here = generation
  const source = { version: 1, pool: pool(changes) }
  const cluster = durablePools(env.CLUSTER, {
    source: () => ({ ...source, isRegional: false, generation: here, locationHint: 'weur' }),
  })('paris', 'qwen')
  return { cluster, source, stub: env.CLUSTER.getByName(objectName('paris', 'qwen', here)) }
}

it('a cluster object divides a pool over several objects, each with its own engines', async () => {
  generation += 1
  const here = generation
  const place = {
    version: 1,
    pool: pool({ engines: engines('a', 'b', 'c', 'd') }),
    isRegional: false,
    generation: here,
    locationHint: null,
    shards: 2,
  }
  const cluster = durablePools(env.CLUSTER, { source: () => place })('paris', 'qwen')
  const chosen = new Set<string>()
  for (let n = 0; n < 12; n++) {
    const answer = await cluster.admit(admission({ session: `s${n}` }))
    if ('refusal' in answer) throw new Error(answer.refusal.detail)
    if (answer.placement.kind === 'whole') chosen.add(answer.placement.engine)
  }
  expect([...chosen].sort()).toEqual(['a', 'b', 'c', 'd'])
  const digest = await cluster.digest()
  expect([digest.bookings, digest.engines.length]).toEqual([12, 4])
  const own = await env.CLUSTER.getByName(`${objectName('paris', 'qwen', here)}:s1`).digest()
  expect(own.engines.map(({ id }: { readonly id: string }) => id)).toEqual(['b', 'd'])
})

it('a cluster object keeps the bookings of live streams through an eviction, and they can be renewed', async () => {
  const { cluster, stub } = open()
  const request = admission({ blocks: new Uint32Array([1, 2, 3, 4]) })
  await cluster.configure(1, pool())
  const placement = await admitAndVanish(stub, request)
  await runDurableObjectAlarm(stub)
  await evictDurableObject(stub)

  const digest = await cluster.digest()
  expect(digest.bookings).toBe(1)
  expect(requestsOf(digest)[placement.kind === 'whole' ? placement.engine : '']).toBe(1)
  const lease = await cluster.resume({ admission: request, placement, firstTokenSeen: true, outputBlocks: 2 })
  expect((await cluster.digest()).bookings).toBe(1)
  clock.advance(59_000)
  await lease.renew()
  clock.advance(59_000)
  await runDurableObjectAlarm(stub)
  expect((await cluster.digest()).bookings).toBe(1)
  await lease.release(outcome())
  expect((await cluster.digest()).bookings).toBe(0)
})

it('a cluster object expires the bookings of dead edges after an eviction', async () => {
  const { cluster, stub } = open()
  await cluster.configure(1, pool())
  await admitAndVanish(stub)
  await runDurableObjectAlarm(stub)
  await evictDurableObject(stub)
  expect((await cluster.digest()).bookings).toBe(1)
  clock.advance(61_000)
  await runDurableObjectAlarm(stub)
  expect((await cluster.digest()).bookings).toBe(0)
})

it('a cluster object releases a booking by name that it has only from a snapshot', async () => {
  const { cluster, stub } = open()
  const request = admission()
  await cluster.configure(1, pool())
  await admitAndVanish(stub, request)
  await runDurableObjectAlarm(stub)
  await evictDurableObject(stub)
  for (let index = 0; index < 2; index++) await stub.tell([['release', bookingKey(request), outcome()]])
  expect((await cluster.digest()).bookings).toBe(0)
})

it('a cluster object remembers configuration and drained engines through an eviction', async () => {
  const { cluster, stub, source } = open()
  await cluster.observe([{ kind: 'drain', engine: 'a', draining: true }])
  await evictDurableObject(stub)
  source.version = 0
  const { engines: reported, configVersion } = await cluster.digest()
  expect(configVersion).toBe(1)
  expect(reported.map(({ id, draining }) => [id, draining])).toEqual([
    ['a', true],
    ['b', false],
  ])
})

it('stores many bookings with long prompts in several values, and restores them all', async () => {
  const { cluster, stub, source } = open({ engines: engines('a') })
  await cluster.configure(1, source.pool)
  const blocks = new Uint32Array(8_000)
  const requests = Array.from({ length: 100 }, () => admission({ blocks }))
  for (const one of requests) await admitAndVanish(stub, one)
  await runDurableObjectAlarm(stub)
  const stored = await runInDurableObject(
    stub,
    (_object: ClusterObject, state) => [...state.storage.kv.list({ prefix: 'snapshot' })].length,
  )
  expect(stored).toBeGreaterThan(3)
  await evictDurableObject(stub)
  expect((await cluster.digest()).bookings).toBe(100)

  for (const one of requests) await stub.tell([['release', bookingKey(one), outcome()]])
  await runDurableObjectAlarm(stub)
  const left = await runInDurableObject(stub, (_object: ClusterObject, state) =>
    [...state.storage.kv.list({ prefix: 'snapshot' })].map(([key]) => key),
  )
  expect(left).toEqual(['snapshot'])
})

it('starts cold, and works, when its snapshot cannot be read', async () => {
  const { cluster, stub } = open()
  await cluster.configure(1, pool())
  await admitAndVanish(stub)
  await runDurableObjectAlarm(stub)
  await runInDurableObject(stub, (_object: ClusterObject, state) =>
    state.storage.kv.put('snapshot:bookings:0', [{ admission: 7 }]),
  )
  await evictDurableObject(stub)
  expect((await cluster.digest()).bookings).toBe(0)
  await admitted(cluster.admit(admission()))
  expect((await cluster.digest()).bookings).toBe(1)
})

it('a cluster object writes only the alarm between two flushes', async () => {
  const { cluster, stub } = open()
  await cluster.configure(1, pool())
  const writes: string[] = []
  await runInDurableObject(stub, (_object: ClusterObject, { storage }) => {
    const { put, setAlarm } = storage
    storage.put = ((...given: Parameters<typeof put>) => (writes.push('put'), put.apply(storage, given))) as typeof put
    storage.setAlarm = ((...given: Parameters<typeof setAlarm>) => (
      writes.push('alarm'),
      setAlarm.apply(storage, given)
    )) as typeof setAlarm
  })
  await runDurableObjectAlarm(stub)
  expect(writes).toContain('put')
  writes.length = 0
  for (let index = 0; index < 50; index++)
    await admitted(cluster.admit(admission())).then(({ lease }) => lease.release(outcome()))
  expect(writes).toEqual(['alarm'])
})

it('a cluster object probes at the next request after an idle time, not with the next flush', async () => {
  const { cluster, stub } = open()
  await cluster.configure(1, pool())
  await runDurableObjectAlarm(stub)
  clock.advance(3_600_000)
  const admittedAt = clock.now()
  await admitted(cluster.admit(admission()))
  expect(await runInDurableObject(stub, (_object: ClusterObject, { storage }) => storage.getAlarm())).toBe(admittedAt)
})

it('a cluster object probes engines of refused requests, because no other request would detect a recovery', async () => {
  const { cluster, stub } = open({ engines: engines('a') })
  await cluster.configure(1, pool({ engines: engines('a') }))
  await cluster.observe([probe('a', clock.now(), { healthy: false })])
  await runDurableObjectAlarm(stub)
  clock.advance(3_600_000)
  await runDurableObjectAlarm(stub)
  const admittedAt = clock.now()
  expect(await cluster.admit(admission())).toHaveProperty('refusal')
  expect(await runInDurableObject(stub, (_object: ClusterObject, { storage }) => storage.getAlarm())).toBe(admittedAt)
  lent.probe = async () => [probe('a', clock.now())]
  await runDurableObjectAlarm(stub)
  await admitted(cluster.admit(admission()))
})

it('a cluster object applies the events of an admission before it decides', async () => {
  const { cluster, stub } = open({ engines: [engine('a', { maxInFlight: 1 })] })
  await cluster.configure(1, pool({ engines: [engine('a', { maxInFlight: 1 })] }))
  const first = admission()
  await stub.admit(first)
  expect(await stub.admit(admission())).toHaveProperty('refusal')
  expect(await stub.admit(admission(), [['release', bookingKey(first), outcome()]])).toHaveProperty('placement')
  expect((await cluster.digest()).bookings).toBe(1)
})

it('a cluster object accepts many booking events in one call, and skips an invalid one', async () => {
  const { cluster, stub } = open()
  await cluster.configure(1, pool())
  const requests = Array.from({ length: 20 }, () => admission())
  for (const one of requests) await stub.admit(one)
  const words = requests.flatMap((one): BookingEvent[] => [
    ['first_token', bookingKey(one), { ttft: 5 }],
    ['release', bookingKey(one)] as unknown as BookingEvent,
    ['tomorrow', bookingKey(one), 7] as unknown as BookingEvent,
    ['release', bookingKey(one), outcome()],
  ])
  await stub.tell(words)
  await stub.tell(words)
  expect((await cluster.digest()).bookings).toBe(0)
  expect((await cluster.digest()).engines.map(({ failuresTotal }) => failuresTotal)).toEqual([0, 0])
})

it('a cluster object expires the booking of a silent edge with its lease', async () => {
  const { cluster, stub } = open()
  await cluster.configure(1, pool())
  await stub.admit(admission())
  await runDurableObjectAlarm(stub)
  clock.advance(59_000)
  await runDurableObjectAlarm(stub)
  expect((await cluster.digest()).bookings).toBe(1)
  clock.advance(2_000)
  await runDurableObjectAlarm(stub)
  expect((await cluster.digest()).bookings).toBe(0)
})

it('a cluster object receives one call per request, and all ends together from a busy isolate', async () => {
  const { cluster } = open()
  await cluster.configure(1, pool())
  const calls: string[] = []
  const { admit, tell } = ClusterObjectBase.prototype
  ClusterObjectBase.prototype.admit = function (...given) {
    calls.push('admit')
    return admit.apply(this, given)
  }
  ClusterObjectBase.prototype.tell = function (...given) {
    calls.push('tell')
    return tell.apply(this, given)
  }
  const background: Promise<unknown>[] = []
  const scope = { background: (work: Promise<unknown>) => void background.push(work) }
  for (let index = 0; index < 30; index++) {
    const { lease } = await admitted(cluster.admit(admission(), scope))
    void lease.firstToken({ ttft: 4 })
    void lease.release(outcome())
  }
  await Promise.all(background)
  Object.assign(ClusterObjectBase.prototype, { admit, tell })
  expect(calls.filter((call) => call === 'admit')).toHaveLength(30)
  expect(calls.length).toBeLessThan(40)
  expect((await cluster.digest()).bookings).toBe(0)
})

it('a cluster object with a full queue is lost: each request ends once, with one booking at most', async () => {
  const QUEUED = 100
  const { cluster } = open({
    engines: [engine('a', { maxInFlight: 2 })],
    queue: { maxRequests: QUEUED, maxWaitMs: 10_000 },
  })
  const running = [await admitted(cluster.admit(admission())), await admitted(cluster.admit(admission()))]
  const waitingRequests = new WaitingRequests()
  const background: Promise<unknown>[] = []
  const scope = {
    background: (work: Promise<unknown>) => void background.push(work),
    client: null,
    remoteAddress: null,
  }
  let held = 0
  let max = 0
  const ends: string[] = []
  const refused: Refusal[] = []
  const serve = async (request: Admission): Promise<void> => {
    const { signal } = new AbortController()
    const terms = {
      maxWaitMs: 10_000,
      waitedMs: 0,
      signal,
      scope,
      timers: defaultTimers,
      waitingRequests,
      now: clock.now,
    }
    const answer = await waitForRoom({ ...terms, queue: cluster.queue!, admission: request })
    ends.push(request.id)
    if ('refusal' in answer) return void refused.push(answer.refusal)
    max = Math.max(max, (held += 1))
    await turns(3)
    held -= 1
    await answer.lease.release(outcome())
  }
  const requests = Array.from({ length: QUEUED }, () => admission())
  const served = requests.map(serve)
  await until(async () => (await cluster.digest()).queue?.requests === QUEUED)
  await abortAllDurableObjects()
  await Promise.all(served)
  for (const { lease } of running) await lease.release(outcome())
  await Promise.all(background)
  expect(ends.toSorted()).toEqual(requests.map(({ id }) => id).toSorted())
  expect([refused, max <= 2]).toEqual([[], true])
  const digest = await cluster.digest()
  expect([digest.bookings, digest.queue?.requests]).toEqual([0, 0])
})

it('a cluster object probes its engines during traffic, and then stops', async () => {
  const probed: number[] = []
  lent.probe = async () => {
    probed.push(clock.now())
    return [probe('a', clock.now(), { healthy: false })]
  }
  const { cluster, stub } = open()
  await admitted(cluster.admit(admission())).then(({ lease }) => lease.release(outcome()))
  for (let index = 0; index < 12; index++) {
    await runDurableObjectAlarm(stub)
    clock.advance(10_000)
  }
  expect(probed.length).toBeGreaterThanOrEqual(2)
  expect(probed.length).toBeLessThanOrEqual(4)
  const [a] = (await cluster.digest()).engines
  expect(a).toMatchObject({ id: 'a', healthy: false, available: false })
  expect(await runInDurableObject(stub, (_object: ClusterObject, state) => state.storage.getAlarm())).toBeNull()
})

it('a cluster object probes while requests wait for an engine, however long', async () => {
  const configured = pool({
    engines: engines('a'),
    queue: { maxRequests: 4, maxWaitMs: 1_000, noEngineWaitMs: 3_600_000 },
  })
  const { cluster, stub } = open(configured)
  await cluster.configure(1, configured)
  lent.probe = async () => [probe('a', clock.now(), { healthy: false })]
  await cluster.observe([probe('a', clock.now(), { healthy: false })])
  const answer = cluster.queue!.wait(admission(), 0)
  await until(async () => (await cluster.digest()).queue?.requests === 1)
  for (let passed = 0; passed < 12; passed++) {
    clock.advance(10_000)
    await runDurableObjectAlarm(stub)
  }
  lent.probe = async () => [probe('a', clock.now())]
  clock.advance(10_000)
  await runDurableObjectAlarm(stub)
  await admitted(answer).then(({ lease }) => lease.release(outcome()))
})

it('a cluster object probes engines that also serve other sources every second', async () => {
  let probes = 0
  lent.probe = async () => {
    probes += 1
    return [probe('a', clock.now(), { stats: stats({ running: 9, waiting: 0 }) })]
  }
  const { cluster, stub } = open()
  await admitted(cluster.admit(admission()))
  for (let index = 0; index < 5; index++) {
    await runDurableObjectAlarm(stub)
    clock.advance(1_000)
  }
  expect(probes).toBe(5)
})

it('a cluster object sets a lost alarm again at the next call', async () => {
  const { cluster, stub } = open()
  const alarmAt = () => runInDurableObject(stub, (_object: ClusterObject, state) => state.storage.getAlarm())
  const lost = async () => {
    await runInDurableObject(stub, (_object: ClusterObject, state) => state.storage.deleteAlarm())
    clock.advance(70_000)
  }
  await admitted(cluster.admit(admission()))
  await lost()
  expect((await cluster.digest()).bookings).toBe(1)
  expect(await alarmAt()).toBe(clock.now())
  await lost()
  await admitted(cluster.admit(admission()))
  expect(await alarmAt()).toBe(clock.now())
  await runDurableObjectAlarm(stub)
  expect((await cluster.digest()).bookings).toBe(1)
})

it('a cluster object survives a probe that throws', async () => {
  let probes = 0
  lent.probe = () => {
    probes += 1
    return Promise.reject(new Error('no route'))
  }
  const { cluster, stub } = open()
  await admitted(cluster.admit(admission()))
  await runDurableObjectAlarm(stub)
  expect(probes).toBe(1)
  expect((await cluster.digest()).bookings).toBe(1)
})

it('a cluster object serves an edge of an older version', async () => {
  const { cluster, stub } = open()
  await cluster.configure(1, { ...pool(), engines: [{ id: 'a' }] } as unknown as PoolConfig)
  const old = (await stub.admit({ id: 'old', model: 'qwen', promptTokens: 3 } as never)) as {
    placement?: { engine: string }
  }
  expect(old.placement?.engine).toBe('a')
  await stub.settle({ id: 'old', attempt: 0 }, { result: 'complete' } as never)
  expect((await cluster.digest()).bookings).toBe(0)
})

it('a cluster object serves an edge of a newer version', async () => {
  const { cluster, stub } = open()
  await cluster.configure(1, { ...pool(), tomorrow: true } as PoolConfig)
  const next = await stub.admit({ ...admission(), version: 9, tomorrow: { deep: 1 } } as never)
  expect(next).toHaveProperty('placement')
  await cluster.observe([{ kind: 'from_the_future', engine: 'a' } as never])
  expect((await cluster.digest()).engines.map(({ available }) => available)).toEqual([true, true])
})

it('a cluster object shows its digest and decisions to a debugger', async () => {
  const { cluster, stub } = open()
  const request = admission({ id: 'why me?' })
  await cluster.admit(request)
  const digest = await stub.fetch('http://cluster/digest')
  expect(await digest.json()).toMatchObject({ cluster: 'paris', bookings: 1 })
  const decision = await stub.fetch('http://cluster/decisions/why%20me%3F')
  expect(await decision.json()).toMatchObject({ id: 'why me?', policy: 'least_loaded' })
  expect((await stub.fetch('http://cluster/decisions/other')).status).toBe(404)
  expect((await stub.fetch('http://cluster/elsewhere')).status).toBe(404)
})

/** Books as an edge whose context then ends without a release. */
async function admitAndVanish(stub: DurableObjectStub<ClusterObject>, request = admission()): Promise<Placement> {
  const answer = await stub.admit(request)
  if ('refusal' in answer) throw new Error(`refused: ${JSON.stringify(answer.refusal)}`)
  return answer.placement
}
