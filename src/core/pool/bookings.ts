import { partsOf, type EarlyLegRole } from '../contract/legs.ts'
import type { BookingRef, Leg } from './ledger-entry.ts'
import type { Admission, Placement } from '../contract/contract.ts'
import type { EngineState, EngineTable } from './engine-state.ts'
import type { BookingSnapshot } from './snapshot.ts'

/** Set of the last `capacity` keys; adding a key removes the oldest. */
export class BoundedSet {
  readonly #limit: number
  readonly #keys = new Set<string>()
  /** Ring buffer: the first entry of a Set is found slowly after many deletions. */
  readonly #inOrder: string[] = []
  #next = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  add(key: string): void {
    if (this.#keys.has(key)) return
    if (this.#inOrder.length === this.#limit) this.#keys.delete(this.#inOrder[this.#next]!)
    this.#keys.add(key)
    this.#inOrder[this.#next] = key
    this.#next = (this.#next + 1) % this.#limit
  }

  delete(key: string): void {
    this.#keys.delete(key)
  }

  has(key: string): boolean {
    return this.#keys.has(key)
  }
}

/** Returns the key of one attempt of a request. Ids are made by the gateway, so clients cannot collide. */
export function bookingKey(admission: Pick<Admission, 'id' | 'attempt'>): string {
  return `${admission.id}#${admission.attempt}`
}

/** Returns the legs of a placement whose engines still exist. */
export function legsOf(placement: Placement, engines: EngineTable): Booking['legs'] {
  const legs: Booking['legs'][number][] = []
  for (const { engine: id, part } of partsOf(placement)) {
    const engine = engines.get(id)
    if (engine !== undefined) legs.push({ engine, part })
  }
  return legs
}

/** Live booking. */
export interface Booking extends BookingRef {
  readonly placement: Placement
  readonly legs: readonly (Leg & { readonly engine: EngineState })[]
  readonly bookedAt: number
  /** Another replica made and counts the decision. */
  readonly elsewhere: boolean
  /** Lower bound of the time its last leg was sent, milliseconds since the epoch. */
  sentAt: number
  /** Time of the last renewal, milliseconds since the epoch. */
  seenAt: number
  /** Expires after this time unless it is renewed. */
  lapsesAt: number
  firstTokenSeen: boolean
  /** Roles whose legs ended before the first token. */
  legsDone: readonly EarlyLegRole[]
  outputBlocks: number
}

/** Live bookings by key. A booking expires if it is not renewed; its age does not matter. */
export class Bookings {
  readonly #byKey = new Map<string, Booking>()

  get size(): number {
    return this.#byKey.size
  }

  add(
    booking: Omit<Booking, 'sentAt' | 'seenAt' | 'lapsesAt' | 'firstTokenSeen' | 'legsDone' | 'outputBlocks'>,
    leaseMs: number,
  ): Booking {
    const { bookedAt } = booking
    const added = {
      ...booking,
      sentAt: bookedAt,
      seenAt: bookedAt,
      lapsesAt: bookedAt + leaseMs,
      firstTokenSeen: false,
      legsDone: [],
      outputBlocks: 0,
    }
    this.#byKey.set(booking.key, added)
    return added
  }

  get(key: string): Booking | undefined {
    return this.#byKey.get(key)
  }

  /** Removes and returns a booking. undefined: unknown or already released, so that release has effect once. */
  take(key: string): Booking | undefined {
    const booking = this.#byKey.get(key)
    this.#byKey.delete(key)
    return booking
  }

  touch(booking: Booking, now: number, leaseMs: number): void {
    booking.seenAt = Math.max(booking.seenAt, now)
    booking.lapsesAt = booking.seenAt + leaseMs
  }

  lapsed(now: number): Booking[] {
    return [...this.#byKey.values()].filter((booking) => now > booking.lapsesAt)
  }

  nextLapseAt(): number | null {
    let next: number | null = null
    for (const { lapsesAt } of this.#byKey.values()) if (next === null || lapsesAt < next) next = lapsesAt
    return next
  }

  /** Returns plain data for a snapshot. */
  snapshot(): BookingSnapshot[] {
    return Array.from(
      this.#byKey.values(),
      ({ admission, placement, bookedAt, seenAt, firstTokenSeen, legsDone, outputBlocks }) => ({
        admission,
        placement,
        bookedAt,
        seenAt,
        firstTokenSeen,
        legsDone,
        outputBlocks,
      }),
    )
  }
}
