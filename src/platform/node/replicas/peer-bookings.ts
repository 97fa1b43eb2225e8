import { endedAs, type EngineSignal, type Result } from '../../../core/contract/contract.ts'
import { readOutcome } from '../../../core/contract/decode.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { Cluster, Lease } from '../../../ports.ts'
import { type BookEvent, JUST_MADE, type PoolEvent, received, receivedCall } from './messages.ts'

const NO_BLOCKS = new Uint32Array(0)

/** The ledger of one pool, which events of other replicas change. */
export interface PoolLedger {
  readonly cluster: Cluster
  readonly blockTokens: number
  readonly leaseMs: number
}

export interface PeerParts {
  /** null: the pool is not configured here. */
  readonly ledger: () => PoolLedger | null
  readonly forget: (responseId: string) => void
  /** false: a later signal holds. */
  readonly signalled: (signal: EngineSignal, at: number) => boolean
}

/** Bookings of one other replica in the ledger of this one. Events may be repeated or late. */
export class PeerBookings {
  readonly #parts: PeerParts
  /** A promise until it is booked; later events of the booking wait for it, in order. */
  readonly #leases = new Map<string, Lease | Promise<Lease>>()
  /** Bookings published since `begin`; null: no whole publication is under way. */
  #seen: Set<string> | null = null
  #leaseMs = 0
  #renewedAt = 0

  constructor(parts: PeerParts) {
    this.#parts = parts
  }

  get size(): number {
    return this.#leases.size
  }

  /** Bookings expire if they are not renewed for so long; 0: there were none. */
  get leaseMs(): number {
    return this.#leaseMs
  }

  receive(event: PoolEvent): void {
    switch (event[0]) {
      case 'begin':
        this.#seen = new Set()
        return
      case 'end':
        return this.#endUnseen()
      case 'book':
        return this.#book(event)
      case 'leg_done':
        return this.#apply(event[1], (lease) => lease.legDone?.(event[2], event[3], event[4]))
      case 'first_token':
        return this.#apply(event[1], (lease) => lease.firstToken(event[2]))
      case 'progress':
        return this.#apply(event[1], (lease) => lease.progress(event[2]))
      case 'release':
        return this.#release(event[1], readOutcome(event[2]))
      case 'signal':
        if (this.#parts.signalled(event[1], event[2]))
          void this.#parts.ledger()?.cluster.observe([event[1]]).catch(ignored)
        return
      case 'registry':
        return void this.#parts.ledger()?.cluster.registry?.(receivedCall(event[1])).catch(ignored)
      case 'forgotten':
        return this.#parts.forget(event[1])
    }
  }

  /** Renews all leases if they are due. false: the ledger has lost a booking, so a snapshot is needed. */
  async renew(now: number): Promise<boolean> {
    if (now - this.#renewedAt < this.#leaseMs / 4) return true
    this.#renewedAt = now
    const renewals = Array.from(this.#leases, async ([key, pending]) => {
      const lease = await pending
      // Events that end the booking may arrive before the promise settles.
      return lease.renew().then(
        () => true,
        () => this.#leases.get(key) !== lease,
      )
    })
    const isComplete = this.#seen === null
    const settled = await Promise.allSettled(renewals)
    return !isComplete || settled.every((renewal) => renewal.status === 'fulfilled' && renewal.value)
  }

  /** Ends all bookings; returns how many. */
  end(result: Result): number {
    const { size } = this.#leases
    for (const key of this.#leases.keys()) this.#release(key, endedAs(result))
    return size
  }

  #book([, blockTokens, asked, placement, course]: BookEvent): void {
    const key = bookingKey(asked)
    this.#seen?.add(key)
    const ledger = this.#parts.ledger()
    if (ledger === null) return
    this.#leaseMs = ledger.leaseMs
    const admission = received(asked)
    // Blocks of another size have other hashes; the booking counts as load only.
    const fitting = blockTokens === ledger.blockTokens ? admission : { ...admission, blocks: NO_BLOCKS }
    const booked = ledger.cluster.resume({
      admission: fitting,
      placement,
      ...(course ?? JUST_MADE),
      elsewhere: course === undefined ? 'now' : 'before',
    })
    this.#leases.set(key, booked)
    booked.then(
      (lease) => this.#leases.get(key) === booked && this.#leases.set(key, lease),
      () => this.#leases.get(key) === booked && this.#leases.delete(key),
    )
  }

  #apply(key: string, change: (lease: Lease) => Promise<void> | undefined): void {
    const lease = this.#leases.get(key)
    if (lease === undefined) return
    if (lease instanceof Promise) void lease.then(change).catch(ignored)
    else void change(lease)?.catch(ignored)
  }

  #release(key: string, outcome: ReturnType<typeof endedAs>): void {
    this.#apply(key, (lease) => lease.release(outcome))
    this.#leases.delete(key)
  }

  #endUnseen(): void {
    if (this.#seen === null) return
    for (const key of this.#leases.keys()) if (!this.#seen.has(key)) this.#release(key, endedAs('abandoned'))
    this.#seen = null
  }
}

/** A ledger in this process rejects only changes of bookings that have ended. */
const ignored = (): void => undefined
