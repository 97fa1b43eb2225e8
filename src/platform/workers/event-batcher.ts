import type { BookingEvent } from '../../core/contract/booking-events.ts'

/** Notices that went with one call. */
export interface EventBatch {
  readonly bookingEvents: readonly BookingEvent[]
  /** Milliseconds since the epoch. */
  readonly sentAt: number
}

/** Longer than any call takes that will still be answered. */
const LOST_AFTER_MS = 10_000
/** A carrier that is this late is not coming: its request died. */
const LATE_MS = 50
/** More at once would make an `admit` that takes them along slow. */
const MOST_IN_ONE = 1_000
/** About 5 MB. An object that is out of reach for so long lets the bookings lapse. */
const MOST_WAITING = 10_000

/**
 * What the requests of one isolate have to say to one object, until a call takes it there. Plain data: on Workers nothing
 * else may pass from one request to another, no promise and no stub. So each call hands its parcel back when it failed, and
 * what was never heard of again goes once more: notices are harmless when repeated.
 */
export class EventBatcher {
  readonly #now: () => number
  #waiting: BookingEvent[] = []
  readonly #underWay = new Set<EventBatch>()
  /** Until then somebody has promised to come; milliseconds since the epoch. */
  #carrierBy = 0
  /** When all that waited last set out; milliseconds since the epoch. */
  #emptiedAt = 0

  constructor(now: () => number) {
    this.#now = now
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  /** true: nobody has promised to carry it, so the caller has now, `withinMs`. */
  add(bookingEvent: BookingEvent, withinMs: number): boolean {
    this.#waiting.push(bookingEvent)
    if (this.#waiting.length > MOST_WAITING) this.#waiting.shift()
    const now = this.#now()
    if (now < this.#carrierBy) return false
    this.#carrierBy = now + withinMs + LATE_MS
    return true
  }

  /**
   * How much longer the carrier may wait, ms: a call of somebody else's took along all that waited, so what waits now does not
   * wait as long as `withinMs` yet. It promises to be back by then. 0: it is to go.
   */
  companyMs(withinMs: number): number {
    const now = this.#now()
    const leftMs = this.isEmpty ? 0 : Math.max(0, this.#emptiedAt + withinMs - now)
    if (leftMs > 0) this.#carrierBy = now + leftMs + LATE_MS
    return leftMs
  }

  /** The carrier is here, or will not come: whoever adds next is the next. */
  carrierFree(): void {
    this.#carrierBy = 0
  }

  /** The oldest of what waits, for a call that sets out now. Say what became of it: `arrived` or `failed`. */
  take(): EventBatch {
    const now = this.#now()
    for (const parcel of this.#underWay) if (now - parcel.sentAt > LOST_AFTER_MS) this.failed(parcel)
    const parcel = { bookingEvents: this.#waiting.splice(0, MOST_IN_ONE), sentAt: now }
    if (parcel.bookingEvents.length > 0) this.#underWay.add(parcel)
    if (this.isEmpty) this.#emptiedAt = now
    return parcel
  }

  arrived(parcel: EventBatch): void {
    this.#underWay.delete(parcel)
  }

  /** Before all that was said since. */
  failed(parcel: EventBatch): void {
    if (this.#underWay.delete(parcel)) this.#waiting = [...parcel.bookingEvents, ...this.#waiting].slice(-MOST_WAITING)
  }
}
