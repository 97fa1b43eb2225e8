import { ChurnMap } from '../churn-map.ts'
import type { Admission } from '../contract/admission.ts'
import { type EarlyLegRole, type LegRole, legsOf } from '../contract/legs.ts'
import type { Placement } from '../contract/placement.ts'
import type { Renewal } from '../contract/renewal.ts'
import type { BookingRef, Leg } from './booking-ref.ts'
import type { OwedToken } from './condition/owed-tokens.ts'
import type { RunningStream } from './condition/stalled-streams.ts'
import type { LoggedDecision } from './decision/decision-log.ts'
import type { EngineState } from './pool-engines/engine-state.ts'
import type { EngineTable } from './pool-engines/engine-table.ts'
import type { LedgerEntry } from './ledger-entry.ts'
import type { SignalReader } from './signals/signal-reader.ts'
import type { BookingSnapshot } from './snapshot.ts'

/** Returns the key of one attempt of a request. Ids are made by the gateway, so clients cannot collide. */
export function bookingKey(admission: Pick<Admission, 'id' | 'attempt'>): string {
  return `${admission.id}#${admission.attempt}`
}

/** Returns the legs of a placement whose engines still exist. */
export function engineLegsOf(placement: Placement, engines: EngineTable): Booking['legs'] {
  // Nearly always, and without a list in between.
  if (placement.kind === 'whole') {
    const engine = engines.get(placement.engine)
    return engine === undefined ? [] : [{ engine, legRole: 'whole' }]
  }
  const legs = legsOf(placement).map(({ engine, legRole }) => ({ engine: engines.get(engine), legRole }))
  // A filtered or growing list has room for 17 legs, and each booking keeps one.
  return legs.every(hasEngine) ? legs : legs.filter(hasEngine)
}

const hasEngine = (leg: { readonly engine: EngineState | undefined; readonly legRole: LegRole }): leg is EngineLeg =>
  leg.engine !== undefined

/** Result of the renewal of a booking. */
export function renewalOf(booking: Booking | undefined): Renewal {
  if (booking === undefined) return false
  const { isFenced, legs } = booking
  // A booking that its gateway made again after the fence has no mark of its own.
  if (isFenced || legs.some(({ engine }) => engine.isFenced)) return 'fenced'
  return !legs.some(({ engine }) => engine.paused !== null) || 'paused'
}

type EngineLeg = Leg & { readonly engine: EngineState }

const NONE_DONE: readonly EarlyLegRole[] = []

/** Live booking. */
export interface Booking extends BookingRef {
  /** Unique among live bookings. */
  readonly key: string
  readonly entry: LedgerEntry
  readonly placement: Placement
  readonly legs: readonly EngineLeg[]
  /** Another replica made and counts the decision. */
  readonly isOfPeer: boolean
  /** The decision in the log. null: it is not there. */
  readonly logged: LoggedDecision | null
  /** Lower bound of the time its last leg was sent, milliseconds since the epoch. */
  sentAt: number
  /** Time of the last renewal, milliseconds since the epoch. */
  seenAt: number
  /** Expires after this time unless it is renewed. */
  lapsesAt: number
  firstTokenSeen: boolean
  legsDone: readonly EarlyLegRole[]
  outputBlocks: number
  /** Its answer may not go on. */
  isFenced: boolean
  /** First output that the engine of its first leg owes. null: it is not watched. */
  owed: OwedToken | null
  /** Its running stream, of which the answering engine owes further output. null: it is not watched. */
  stream: RunningStream | null
}

type NewBooking = Pick<
  Booking,
  'key' | 'admission' | 'placement' | 'legs' | 'entry' | 'bookedAt' | 'isOfPeer' | 'logged'
>

export interface BookingTerms {
  readonly now: number
  /** Reader of the decision that is booked; absent: an earlier decision. */
  readonly reading?: SignalReader | undefined
  /** The decision that is booked; absent: an earlier one. */
  readonly logged?: LoggedDecision | null
  readonly isOfPeer?: boolean
}

/** Live bookings by key. A booking expires if it is not renewed; its age does not matter. */
export class Bookings {
  readonly #byKey = new ChurnMap<string, Booking>()

  get size(): number {
    return this.#byKey.size
  }

  add({ key, admission, placement, legs, entry, bookedAt, isOfPeer, logged }: NewBooking, leaseMs: number): Booking {
    const booking = {
      key,
      admission,
      placement,
      legs,
      entry,
      bookedAt,
      isOfPeer,
      logged,
      sentAt: bookedAt,
      seenAt: bookedAt,
      lapsesAt: bookedAt + leaseMs,
      firstTokenSeen: false,
      legsDone: NONE_DONE,
      outputBlocks: 0,
      isFenced: false,
      owed: null,
      stream: null,
    }
    this.#byKey.set(key, booking)
    return booking
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

  /** Requests without a first token that wait at the engine. */
  *waitingAt(engine: EngineState): Generator<Admission> {
    for (const { firstTokenSeen, legs, admission } of this.#byKey.values())
      if (!firstTokenSeen && legs.some((leg) => leg.engine === engine)) yield admission
  }

  /** Ends the answers of the engine: each gateway learns it when it renews its booking. */
  fence(engine: EngineState): void {
    for (const booking of this.#byKey.values())
      if (booking.legs.some((leg) => leg.engine === engine)) booking.isFenced = true
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
      ({ admission, placement, bookedAt, seenAt, firstTokenSeen, legsDone, outputBlocks, isFenced }) => ({
        admission,
        placement,
        bookedAt,
        seenAt,
        firstTokenSeen,
        legsDone,
        outputBlocks,
        ...(isFenced ? { isFenced } : {}),
      }),
    )
  }
}
