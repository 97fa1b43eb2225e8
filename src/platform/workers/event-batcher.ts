import { Carrier } from '../../core/carrier.ts'
import type { BookingEvent } from '../../core/contract/booking-event.ts'

/** Events that one call sends. @testing */
export interface BookingEventBatch {
  readonly bookingEvents: readonly BookingEvent[]
  /** Milliseconds since the epoch. */
  readonly sentAt: number
}

/** Time without an answer, ms, after which a call counts as lost and its events are sent again. */
const LOST_AFTER_MS = 10_000

/** Delay, ms, after which a promised call is no longer expected: its request has ended. */
const LATE_MS = 50

/** Events per call; more would slow down the `admit` that sends them. */
const MAX_BATCH = 1_000

/** About 5 MB. If an object is unreachable for so long, the bookings expire. */
const MAX_QUEUED = 10_000

/**
 * Booking events of all requests of one isolate for one object, queued until a call sends them. Plain data: on Workers
 * no promise and no stub may pass from one request to another. A call that failed returns its batch; a batch without
 * an answer is sent again, because events are idempotent.
 */
export class EventBatcher {
  readonly #now: () => number
  #queue: BookingEvent[] = []
  readonly #inFlight = new Set<BookingEventBatch>()
  readonly #carrier = new Carrier(LATE_MS)
  /** When the queue was last emptied; ms since the epoch. */
  #emptiedAt = 0

  constructor(now: () => number) {
    this.#now = now
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  /** true: no request has promised to send it, so the caller must, within `withinMs`. */
  add(bookingEvent: BookingEvent, withinMs: number): boolean {
    this.#queue.push(bookingEvent)
    if (this.#queue.length > MAX_QUEUED) this.#queue.shift()
    const now = this.#now()
    return this.#carrier.promises(now + withinMs, now)
  }

  /**
   * Time, ms, that the promised request may still wait because another call sent the queue, so that its events are
   * younger than `withinMs`. 0: it must make its call now.
   */
  lingerMs(withinMs: number): number {
    const now = this.#now()
    const leftMs = this.isEmpty ? 0 : Math.max(0, this.#emptiedAt + withinMs - now)
    if (leftMs > 0) this.#carrier.postpone(now + leftMs)
    return leftMs
  }

  /** Ends the promise: the next caller of `add` makes the next one. */
  carrierFree(): void {
    this.#carrier.sent()
  }

  /** Takes the oldest events for a call that starts now. Call `arrived` or `failed` when its result is known. */
  take(): BookingEventBatch {
    const now = this.#now()
    for (const batch of this.#inFlight) if (now - batch.sentAt > LOST_AFTER_MS) this.failed(batch)
    const batch = { bookingEvents: this.#queue.splice(0, MAX_BATCH), sentAt: now }
    if (batch.bookingEvents.length > 0) this.#inFlight.add(batch)
    if (this.isEmpty) this.#emptiedAt = now
    return batch
  }

  arrived(batch: BookingEventBatch): void {
    this.#inFlight.delete(batch)
  }

  /** Puts the events back, before newer ones. */
  failed(batch: BookingEventBatch): void {
    if (this.#inFlight.delete(batch)) this.#queue = [...batch.bookingEvents, ...this.#queue].slice(-MAX_QUEUED)
  }
}
