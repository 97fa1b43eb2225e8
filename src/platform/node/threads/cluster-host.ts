/** Bookings of one I/O thread, in the thread that has the pool state. */
import { type Admission, endedAs } from '../../../core/contract/contract.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { BookingEvent } from '../../../core/contract/legs.ts'
import { applyToLease, type AdmitAnswer, type PoolMethod } from '../../../origin/cluster-client.ts'
import type { Admitted, Cluster, Lease, Log } from '../../../ports.ts'
import type { PoolMessage } from './rpc.ts'

/** End of a booking whose thread has exited: no fault of the engine. */
const ABANDONED = endedAs('abandoned')

export class ThreadClusterHost {
  readonly #cluster: (pool: number) => Cluster
  readonly #log: Log
  readonly #onClose: () => void
  /** Pool number and booking key → lease. */
  readonly #leases = new Map<string, Lease>()
  #closed = false

  /**
   * @param cluster the pool with that number; throws for one that is not configured
   * @param onClose called when the thread has exited
   */
  constructor(cluster: (pool: number) => Cluster, log: Log, onClose: () => void = () => {}) {
    this.#cluster = cluster
    this.#log = log
    this.#onClose = onClose
  }

  /** Number of bookings of this thread that have not ended. */
  get size(): number {
    return this.#leases.size
  }

  /** Changes the pool state before it returns. Returns the answer. */
  receive(message: PoolMessage): unknown {
    switch (message[0]) {
      case 'admit':
        return this.#admit(message[1], message[2])
      case 'wait': {
        const [, pool, admission, waitedMs] = message
        const name = nameOf(pool, bookingKey(admission))
        return this.#cluster(pool).wait!(admission, waitedMs).then((admitted) => this.#admitted(name, admitted))
      }
      case 'resume': {
        const [, pool, booking] = message
        return this.#cluster(pool)
          .resume(booking)
          .then((lease) => this.#keep(nameOf(pool, bookingKey(booking.admission)), lease))
      }
      case 'renew':
        return this.#renew(nameOf(message[1], message[2]))
      case 'event':
        return this.#apply(nameOf(message[1], message[2][1]), message[2])
      case 'pool':
        return this.#call(message[1], message[2], message[3])
    }
  }

  /** Releases all bookings of the thread, which has exited. Returns how many there were. */
  close(): number {
    this.#closed = true
    this.#onClose()
    const { size } = this.#leases
    for (const name of this.#leases.keys()) this.#abandon(name)
    return size
  }

  #admit(pool: number, admission: Admission): AdmitAnswer | Promise<AdmitAnswer> {
    const cluster = this.#cluster(pool)
    const name = nameOf(pool, bookingKey(admission))
    const admitted = cluster.admitNow?.(admission) ?? null
    if (admitted !== null) return this.#admitted(name, admitted)
    return cluster.admit(admission).then((later) => this.#admitted(name, later))
  }

  #admitted(name: string, admitted: Admitted): AdmitAnswer {
    if ('refusal' in admitted) return admitted
    const { lease, ...answer } = admitted
    this.#keep(name, lease)
    return answer
  }

  #keep(name: string, lease: Lease): void {
    this.#leases.set(name, lease)
    // The thread exited while the pool booked for it.
    if (this.#closed) this.#abandon(name)
  }

  #abandon(name: string): void {
    this.#apply(name, ['release', name, ABANDONED])
  }

  /** Ignores events of bookings that have ended. */
  #apply(name: string, event: BookingEvent): void {
    const lease = this.#leases.get(name)
    if (lease === undefined) return
    if (event[0] === 'release') this.#leases.delete(name)
    applyToLease(lease, event)?.catch((error: unknown) => this.#log.error('booking_failed', { error }))
  }

  /** false: the pool does not have the booking; the thread then resumes it. */
  async #renew(name: string): Promise<boolean> {
    try {
      const lease = this.#leases.get(name)
      await lease?.renew()
      return lease !== undefined
    } catch {
      this.#leases.delete(name)
      return false
    }
  }

  #call(pool: number, name: PoolMethod, args: readonly unknown[]): unknown {
    const cluster = this.#cluster(pool)
    const method = cluster[name] as ((...args: readonly unknown[]) => unknown) | undefined
    if (method === undefined) throw new Error(`pool ${pool} has no method ${name}`)
    return method.apply(cluster, [...args])
  }
}

const nameOf = (pool: number, key: string): string => `${pool} ${key}`
