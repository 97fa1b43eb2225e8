/** Ports of an I/O thread: its own sockets; everything else is in the main thread. */
import type { WorkerGroup } from '../../../api/worker-group.ts'
import type { Config } from '../../../config.ts'
import type { StoredResponses, Log, PoolName, Ttft, Cluster } from '../../../ports.ts'
import { machinePorts, type NodePorts } from '../ports.ts'
import type { RpcChannel, ToMain, ToThread, TtftQuestion, PoolMessage } from './rpc.ts'
import type { Admission, Resume } from '../../../core/contract/contract.ts'
import type { LimitAnswer } from '../../../core/limits/key-limiter.ts'
import type { BookingEvent } from '../../../core/contract/legs.ts'
import {
  ClusterClient,
  type AdmitAnswer,
  type ClusterTransport,
  type PoolMethod,
} from '../../../origin/cluster-client.ts'

/* The Cluster port of an I/O thread: the state of every pool is in the main thread. */

type Channel = Pick<RpcChannel<PoolMessage, never>, 'call' | 'notify'>

/** @param numberOf the pool's place in the configuration; throws for a pool that is not in it */
export function threadClusters(
  channel: Channel,
  numberOf: (clusterId: string, pool: string) => number,
  now: () => number = () => Date.now(),
): (clusterId: string, pool: string) => Cluster {
  const clusters = new Map<number, Cluster>()
  return (clusterId, pool) => {
    const number = numberOf(clusterId, pool)
    const known = clusters.get(number)
    if (known !== undefined) return known
    const cluster = new ClusterClient({
      transport: new ThreadTransport(channel, number),
      now,
      random: () => Math.random(),
    })
    clusters.set(number, cluster)
    return cluster
  }
}

class ThreadTransport implements ClusterTransport {
  readonly #channel: Channel
  readonly #pool: number

  constructor(channel: Channel, pool: number) {
    this.#channel = channel
    this.#pool = pool
  }

  call(method: PoolMethod, args: readonly unknown[]): Promise<unknown> {
    return this.#channel.call(['pool', this.#pool, method, args])
  }

  admit(admission: Admission): Promise<AdmitAnswer> {
    return this.#channel.call(['admit', this.#pool, admission]) as Promise<AdmitAnswer>
  }

  wait(admission: Admission, waitedMs: number): Promise<AdmitAnswer> {
    return this.#channel.call(['wait', this.#pool, admission, waitedMs]) as Promise<AdmitAnswer>
  }

  async resume(booking: Resume): Promise<void> {
    await this.#channel.call(['resume', this.#pool, booking])
  }

  async renew(key: string): Promise<boolean> {
    return (await this.#channel.call(['renew', this.#pool, key])) === true
  }

  async send(event: BookingEvent): Promise<void> {
    // Progress is sent once per block of every stream, so it may wait for other messages.
    this.#channel.notify(['event', this.#pool, event], event[0] === 'progress')
  }
}

export type MainChannel = RpcChannel<ToMain, ToThread>

/** Batching delay of records on their way to the main thread. */
const RECORDS_MS = 100

/**
 * Lists pools in the order that both sides use. Pools of earlier configurations keep their number, because messages
 * about them may be in flight.
 */
export function poolNames(
  { clusters }: Pick<Config, 'clusters'>,
  before: readonly PoolName[] = [],
): readonly PoolName[] {
  const known = new Set(before.map((name) => JSON.stringify(name)))
  const all = clusters.flatMap(({ id, pools }) => pools.map(({ model }) => [id, model] as const))
  return [...before, ...all.filter((name) => !known.has(JSON.stringify(name)))]
}

/** Numbers the pools. */
export class PoolNumbers {
  #numbers: ReadonlyMap<string, number>

  constructor(names: readonly PoolName[]) {
    this.#numbers = numbered(names)
  }

  adopt(names: readonly PoolName[]): void {
    this.#numbers = numbered(names)
  }

  /** Throws for an unknown pool. */
  readonly of = (...name: PoolName): number => {
    const number = this.#numbers.get(JSON.stringify(name))
    if (number === undefined) throw new Error(`cluster ${name[0]} has no pool ${name[1]}`)
    return number
  }
}

const numbered = (names: readonly PoolName[]): ReadonlyMap<string, number> =>
  new Map(names.map((name, number) => [JSON.stringify(name), number]))

export function threadPorts(
  numbers: PoolNumbers,
  log: Log,
  channel: MainChannel,
): Omit<NodePorts, 'adopt' | 'storedResponses'> {
  const machine = machinePorts(log)
  return {
    ...machine,
    cluster: threadClusters(channel, numbers.of),
    ttft: threadTtft(channel),
    limiter: {
      reserve: (reservation) => channel.call(['limit_reserve', reservation]) as Promise<LimitAnswer>,
      settle: (settlement) => channel.notify(['limit_settle', settlement]),
    },
    close: () => machine.origin.close(),
  }
}

/** State shared by the threads, as one of them sees it. */
export function sharedByThreads(numbers: PoolNumbers, channel: MainChannel, startedAt: number): WorkerGroup {
  return {
    // If the main thread is gone, the process ends.
    ask: (question) => channel.call(['siblings', question]) as Promise<readonly unknown[]>,
    storedResponses: threadStoredResponses(channel),
    prober: {
      round: async () => {},
      suspect: ({ cluster, pool }, { id }) => channel.notify(['suspect', numbers.of(cluster.id, pool.model), id], true),
    },
    startedAt,
  }
}

export function threadTtft(channel: Pick<MainChannel, 'call'>): Ttft {
  const ask = (question: TtftQuestion, ...given: readonly unknown[]): Promise<unknown> =>
    channel.call(['ttft', question, given])
  return {
    batchMs: RECORDS_MS,
    report: (partials) => ask('report', partials) as ReturnType<Ttft['report']>,
    find: (id) => ask('find', id) as ReturnType<Ttft['find']>,
    flush: async (batch) => void (await ask('flush', batch)),
    rollups: () => ask('rollups') as ReturnType<Ttft['rollups']>,
    counted: (limitsMs) => ask('counted', limitsMs) as ReturnType<NonNullable<Ttft['counted']>>,
    forget: async (names, before) => void (await ask('forget', names, before)),
  }
}

function threadStoredResponses(channel: MainChannel): StoredResponses {
  return {
    find: (id, tenant) =>
      channel.call(['response_find', id, tenant]) as Promise<Awaited<ReturnType<StoredResponses['find']>>>,
    keep: (id, stored) => {
      channel.notify(['response_keep', id, stored])
      // Posted before the bytes with the id are written, so that `sync` finds it.
      channel.flush()
    },
    forget: async (id) => void (await channel.call(['response_forget', id])),
  }
}
