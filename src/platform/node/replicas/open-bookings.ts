/** Writes the open bookings of this replica in one pool to the server and publishes each change. */
import { ChurnMap } from '../../../core/churn-map.ts'
import { endedAs, type Outcome, type Usage } from '../../../core/contract/outcome.ts'
import type { Renewal } from '../../../core/contract/renewal.ts'
import type { Resume } from '../../../core/contract/resume.ts'
import type { StageTimes } from '../../../core/contract/stages.ts'
import type { BookingEvent } from '../../../core/contract/booking-event.ts'
import type { EarlyLegRole } from '../../../core/contract/legs.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { Lease } from '../../../ports/lease.ts'
import { type ChannelEvent, encodeAdmission, encodeOutcome } from './messages.ts'
import { bookingField } from './hash-fields.ts'
import type { Field, PoolParts } from './pool-parts.ts'
import { type Operation, SCRIPTS, type Script } from './scripts.ts'

/** All bookings are written in pieces, so that no command blocks the server for long. */
const PIECE_CHARS = 65_536
/** Unanswered events. Beyond it (a slow or frozen server) they are dropped; all bookings are written again later. */
const MAX_QUEUE_CHARS = 8_388_608
const RETRY_MS = 100

type OpenBookingEvent = Exclude<BookingEvent, readonly ['release', ...unknown[]]>

export interface BookedRequest extends Pick<Resume, 'admission' | 'placement'> {
  readonly blockTokens: number
  readonly leaseMs: number
}

/** A booking that this replica has made. */
export class OpenBooking implements Lease {
  readonly key: string
  readonly request: BookedRequest
  readonly keepsOrder: boolean
  renewedAt = 0
  /** Last event of each field. */
  readonly events = new Map<string, OpenBookingEvent>()
  readonly #lease: Lease
  readonly #bookings: OpenBookings

  constructor(lease: Lease, bookings: OpenBookings, request: BookedRequest & Partial<Resume>) {
    this.#lease = lease
    this.#bookings = bookings
    this.request = request
    const key = (this.key = bookingKey(request.admission))
    this.keepsOrder = lease.keepsOrder ?? false
    const { legsDone = [], firstTokenSeen = false, outputBlocks = 0 } = request
    for (const legRole of legsDone) this.events.set(bookingField(legRole, key), ['leg_done', key, legRole, {}, null])
    if (firstTokenSeen) this.events.set(bookingField('first_token', key), ['first_token', key, {}])
    if (outputBlocks > 0) this.events.set(bookingField('progress', key), ['progress', key, outputBlocks])
  }

  legDone(legRole: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    this.#bookings.changed(this, bookingField(legRole, this.key), ['leg_done', this.key, legRole, stages, usage])
    return this.#lease.legDone(legRole, stages, usage)
  }

  firstToken(stages: StageTimes): Promise<void> {
    const field = bookingField('first_token', this.key)
    if (!this.events.has(field)) this.#bookings.changed(this, field, ['first_token', this.key, stages])
    return this.#lease.firstToken(stages)
  }

  progress(outputBlocks: number): Promise<void> {
    this.#bookings.changed(this, bookingField('progress', this.key), ['progress', this.key, outputBlocks])
    return this.#lease.progress(outputBlocks)
  }

  /** The ledger has the booking: then the other replicas need it too. */
  async renew(): Promise<Renewal | void> {
    const renewal = await this.#lease.renew()
    this.#bookings.add(this)
    return renewal
  }

  release(outcome: Outcome): Promise<void> {
    this.#bookings.released(this.key, outcome)
    return this.#lease.release(outcome)
  }

  *fields(): Generator<Field> {
    const { admission, placement, blockTokens } = this.request
    yield [bookingField('booking', this.key), ['book', blockTokens, encodeAdmission(admission), placement]]
    yield* this.events
  }
}

/**
 * Open bookings of this replica in one pool. After anything that failed, all are written again under a new number; the
 * scripts refuse whatever is not exactly the next turn. A failed turn is never sent again: later turns may have
 * overtaken it.
 */
export class OpenBookings {
  readonly #parts: PoolParts
  /** Further fields of the hash. */
  readonly #more: () => Iterable<Field>
  readonly #open = new ChurnMap<string, OpenBooking>()
  readonly #progressed = new Map<string, OpenBookingEvent>()
  /** Number of the last message of this replica. */
  #number = 0
  /** The last that the server has acknowledged since all bookings were written; 0: none. */
  #acknowledged = 0
  /** Bookings have been written, or are being written, since the last failure. */
  #isAccepting = false
  /** Failures so far: answers to turns before one do not matter. */
  #failures = 0
  #turn: string[] = []
  #turnChars = 0
  #flushing: NodeJS.Immediate | undefined
  #unansweredChars = 0
  #retry: NodeJS.Timeout | undefined

  constructor(parts: PoolParts, more: () => Iterable<Field> = () => []) {
    this.#parts = parts
    this.#more = more
  }

  /** Number of the last message that the server must have; 0: none. */
  get acknowledged(): number {
    return this.#acknowledged
  }

  /** The connection is up or down. */
  connected(isUp: boolean): void {
    this.#fail()
    if (isUp) void this.#writeAll()
  }

  /** Writes all bookings again, in a moment. */
  rewrite(): void {
    this.#fail()
    if (this.#parts.publish.client !== null) this.#retry = setTimeout(() => void this.#writeAll(), RETRY_MS).unref()
  }

  /** A booking that was made, or renewed. */
  add(open: OpenBooking): void {
    open.renewedAt = this.#parts.now()
    const isNew = !this.#open.has(open.key)
    this.#open.set(open.key, open)
    if (isNew) for (const [field, event] of open.fields()) this.publish('set', field, event)
  }

  /** Progress is published by the next `tick`. */
  changed(open: OpenBooking, field: string, event: OpenBookingEvent): void {
    open.renewedAt = this.#parts.now()
    open.events.set(field, event)
    if (!this.#open.has(open.key)) return
    if (event[0] === 'progress') this.#progressed.set(field, event)
    else this.publish('set', field, event)
  }

  released(key: string, outcome: Outcome): void {
    this.#progressed.delete(bookingField('progress', key))
    if (this.#open.delete(key)) this.publish('delete', key, ['release', key, encodeOutcome(outcome)])
  }

  /** Publishes progress, and ends bookings that were not renewed for a lease. */
  tick(): void {
    for (const [field, event] of this.#progressed) this.publish('set', field, event)
    this.#progressed.clear()
    const now = this.#parts.now()
    for (const [key, { renewedAt, request }] of this.#open)
      if (now > renewedAt + request.leaseMs) this.released(key, endedAs('lapsed'))
  }

  /** Publishes an event that changes no field. */
  announce(event: ChannelEvent): void {
    this.publish('announce', '', event)
  }

  publish(operation: Operation, field: string, event: ChannelEvent): void {
    if (!this.#isAccepting) return
    void this.#add(operation, field, event)
    this.#flushing ??= setImmediate(() => void this.#flush())
  }

  /** Removes this replica, behind everything published before. Resolves when the server has answered. */
  async leave(): Promise<void> {
    void this.#flush()
    this.#fail()
    if (this.#parts.publish.client !== null) await this.#send(SCRIPTS.leave, this.#number + 1, [])
  }

  /** A full piece is sent at once; resolves when the server has answered it. */
  #add(operation: Operation, field: string, event: ChannelEvent): Promise<void> | null {
    const text = JSON.stringify(event)
    this.#turn.push(operation, field, text)
    this.#turnChars += field.length + text.length
    return this.#turnChars < PIECE_CHARS ? null : this.#flush()
  }

  async #flush(): Promise<void> {
    clearImmediate(this.#flushing)
    this.#flushing = undefined
    const [turn, chars] = [this.#turn, this.#turnChars]
    if (turn.length === 0) return
    this.#turn = []
    this.#turnChars = 0
    if (this.#unansweredChars > MAX_QUEUE_CHARS) return this.rewrite()
    await this.#run(SCRIPTS.publish, this.#number++, turn, chars)
  }

  /** Never rejects. */
  async #run(script: Script, number: number, given: readonly string[], chars = 0): Promise<void> {
    const [failures, last] = [this.#failures, this.#number]
    this.#unansweredChars += chars
    const answer = await this.#send(script, number, given).catch((error: Error) => {
      if (failures === this.#failures) this.#parts.rejected(error)
      return 0
    })
    this.#unansweredChars -= chars
    if (failures !== this.#failures) return
    if (answer === 1) this.#acknowledged = last
    else this.rewrite()
  }

  #send(script: Script, number: number, given: readonly string[]): Promise<unknown> {
    const { replica, keys, publish } = this.#parts
    return publish.run(
      script,
      [keys.bookings(replica), keys.present],
      [replica, String(number), keys.channel, ...given],
    )
  }

  /** Nothing is published until all bookings are written again. */
  #fail(): void {
    this.#failures += 1
    this.#acknowledged = 0
    this.#isAccepting = false
    this.#turn = []
    this.#turnChars = 0
    clearTimeout(this.#retry)
  }

  /** Once all is answered. Bookings that begin or end meanwhile publish that themselves. */
  async #writeAll(): Promise<void> {
    if (this.#unansweredChars > 0) return this.rewrite()
    const failures = this.#failures
    this.#isAccepting = true
    this.#number += 1
    await this.#run(SCRIPTS.begin, this.#number, [String(this.#parts.leaseMs)])
    for (const [field, event] of this.#fields()) {
      if (failures !== this.#failures) return
      await this.#add('store', field, event)
    }
    this.announce(['whole'])
  }

  *#fields(): Generator<Field> {
    yield* this.#more()
    for (const open of this.#open.values()) yield* open.fields()
  }
}
