/** The Cluster port of an I/O thread: the state of every pool is in the main thread. */
import type { Admission, Resume } from '../../../core/contract/contract.ts'
import type { BookingEvent } from '../../../core/contract/booking-events.ts'
import {
  ClusterClient,
  type AdmitAnswer,
  type ClusterTransport,
  type PoolMethod,
} from '../../../origin/cluster-client.ts'
import type { Cluster } from '../../../ports.ts'
import type { PoolMessage, RpcChannel } from './rpc.ts'

type Channel = Pick<RpcChannel<PoolMessage, never>, 'call' | 'notify'>

/** @param numberOf the pool's place in the configuration; throws for a pool that is not in it */
export function threadClusters(
  channel: Channel,
  numberOf: (clusterId: string, pool: string) => number,
): (clusterId: string, pool: string) => Cluster {
  const clusters = new Map<number, Cluster>()
  return (clusterId, pool) => {
    const number = numberOf(clusterId, pool)
    const known = clusters.get(number)
    if (known !== undefined) return known
    const cluster = new ClusterClient(new ThreadTransport(channel, number))
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
