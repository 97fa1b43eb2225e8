import { partsOf, type EarlyLegRole } from '../contract/legs.ts'
import type { BookingRef, Leg } from './leg.ts'
import type { Admission, Placement } from '../contract/contract.ts'
import type { EngineState, EngineTable } from './engine-state.ts'
import type { BookingSnapshot } from './snapshot.ts'

/** The last keys that were put in; older ones are forgotten. */
export class BoundedSet {
  readonly #limit: number
  readonly #keys = new Set<string>()
  /** A ring: a Set's own first entry is found only past the holes that all before it have left. */
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

/** Names one attempt of one request; the id is the gateway's own, so clients cannot collide. */
export function bookingKey(admission: Pick<Admission, 'id' | 'attempt'>): string {
  return `${admission.id}#${admission.attempt}`
}

/** Who does what, as far as the engines are still known. */
export function legsOf(placement: Placement, engines: EngineTable): Booking['legs'] {
  const legs: Booking['legs'][number][] = []
  for (const { engine: id, part } of partsOf(placement)) {
    const engine = engines.get(id)
    if (engine !== undefined) legs.push({ engine, part })
  }
  return legs
}

/** One live booking. */
export interface Booking extends BookingRef {
  readonly placement: Placement
  readonly legs: readonly (Leg & { readonly engine: EngineState })[]
  readonly bookedAt: number
  /** Others chose its engines, and count it. */
  readonly elsewhere: boolean
  /** When its last leg so far was sent: not before this moment, milliseconds since the epoch. */
  sentAt: number
  /** Last sign of life. */
  seenAt: number
  /** Lapses after this moment without a sign of life. */
  lapsesAt: number
  firstTokenSeen: boolean
  /** Parts that ended before the first token. */
  legsDone: readonly EarlyLegRole[]
  outputBlocks: number
}

/** Live bookings by key. Activity keeps one alive; age never ends one. */
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

  /** Removes it; undefined when it is unknown or gone already, which is what makes release happen once. */
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

  /** As plain data; `restore` of the state takes it back. */
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
