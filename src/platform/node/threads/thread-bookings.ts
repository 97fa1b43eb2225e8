/** Bookings of one I/O thread, in the thread that has the pool state. */
import type { Admission } from '../../../core/contract/admission.ts'
import { endedAs } from '../../../core/contract/outcome.ts'
import type { Renewal } from '../../../core/contract/renewal.ts'
import type { AdmitAnswer } from '../../../core/pool/admission-result.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { BookingEvent } from '../../../core/contract/booking-event.ts'
import { applyToLease, callPool, type PoolMethod } from '../../../origin/pools/pool-transport.ts'
import type { AdmitResult, PoolPort } from '../../../ports/pool.ts'
import type { Lease } from '../../../ports/lease.ts'
import type { Log } from '../../../ports/log.ts'
import type { PoolMessage } from './messages.ts'

/** End of a booking whose thread has exited: no fault of the engine. */
const ABANDONED = endedAs('abandoned')

export class ThreadBookings {
  readonly #poolOf: (pool: number) => PoolPort
  readonly #log: Log
  readonly #onClose: () => void
  /** Pool number and booking key → lease. */
  readonly #leases = new Map<string, Lease>()
  #closed = false

  /**
   * @param poolOf the pool with that number; throws for one that is not configured
   * @param onClose called when the thread has exited
   */
  constructor(poolOf: (pool: number) => PoolPort, log: Log, onClose: () => void = () => {}) {
    this.#poolOf = poolOf
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
        const { queue } = this.#poolOf(pool)
        return queue!.wait(admission, waitedMs).then((admitted) => this.#admitted(name, admitted))
      }
      case 'resume': {
        const [, pool, booking] = message
        return this.#poolOf(pool)
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
    const poolPort = this.#poolOf(pool)
    const name = nameOf(pool, bookingKey(admission))
    const admitted = poolPort.local?.admit(admission) ?? null
    if (admitted !== null) return this.#admitted(name, admitted)
    return poolPort.admit(admission).then((later) => this.#admitted(name, later))
  }

  #admitted(name: string, admitted: AdmitResult): AdmitAnswer {
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
    applyToLease(lease, event).catch((error: unknown) => this.#log.error('booking_failed', { error }))
  }

  /** false: the pool does not have the booking; the thread then resumes it. */
  async #renew(name: string): Promise<Renewal> {
    const lease = this.#leases.get(name)
    if (lease === undefined) return false
    try {
      return (await lease.renew()) ?? true
    } catch {
      this.#leases.delete(name)
      return false
    }
  }

  #call(pool: number, name: PoolMethod, args: readonly unknown[]): unknown {
    return callPool(this.#poolOf(pool), name, args)
  }
}

const nameOf = (pool: number, key: string): string => `${pool} ${key}`
