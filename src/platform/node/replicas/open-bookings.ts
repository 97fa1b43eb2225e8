import { bookingKey } from '../../../core/pool/bookings.ts'
import type { EarlyLegRole, BookingEvent } from '../../../core/contract/legs.ts'
import { type Admission, endedAs, type EngineSignal, type Placement } from '../../../core/contract/contract.ts'
import { type Course, JUST_MADE, type PoolEvent, sent } from './messages.ts'

/** Progress is published at most this often. */
const PROGRESS_MS = 100

/** What an event changes in the hash of open bookings; scripts.ts explains the letters. */
export type Operation = 's' | 'm' | 'd' | 'p' | 'h' | 'x'

export interface Publisher {
  /** Publishes at the end of this turn of the event loop. Drops the event while there is no connection. */
  publish(operation: Operation, field: string, event: () => PoolEvent): void
}

export interface Open {
  readonly key: string
  readonly blockTokens: number
  readonly leaseMs: number
  readonly admission: Admission
  readonly placement: Placement
  firstTokenSeen: boolean
  legsDone: readonly EarlyLegRole[]
  outputBlocks: number
  renewedAt: number
}

export type Made = Pick<Open, 'blockTokens' | 'leaseMs' | 'admission' | 'placement'>
type Event<Kind extends BookingEvent[0]> = Extract<BookingEvent, readonly [Kind, ...unknown[]]>
type Drain = Extract<EngineSignal, { readonly kind: 'drain' }>

/** Open bookings that this replica has made in one pool, and the drains that hold there. */
export class OpenBookings {
  readonly #publisher: Publisher
  /** Milliseconds since the epoch. */
  readonly #now: () => number
  readonly #open = new Map<string, Open>()
  /** Latest drain or undrain of each engine, by whichever replica it was set. */
  readonly #drains = new Map<string, { readonly signal: Drain; readonly at: number }>()
  readonly #progress = new Map<string, number>()
  #progressing: NodeJS.Timeout | null = null

  constructor(publisher: Publisher, now: () => number) {
    this.#publisher = publisher
    this.#now = now
  }

  get size(): number {
    return this.#open.size
  }

  /** @param course the ledger had lost the booking: its progress until then */
  add(made: Made, course: Course | null = null): Open {
    const key = bookingKey(made.admission)
    const { firstTokenSeen, legsDone = [], outputBlocks } = course ?? JUST_MADE
    const known = this.#open.get(key)
    const open = known ?? { ...made, key, firstTokenSeen, legsDone, outputBlocks, renewedAt: 0 }
    open.renewedAt = this.#now()
    this.#open.set(key, open)
    if (known === undefined) this.#publish('s', `b${key}`, () => booked(open, course !== null))
    return open
  }

  legDone(open: Open, event: Event<'leg_done'>): void {
    open.legsDone = [...open.legsDone, event[2]]
    if (this.#isOpen(open)) this.#publish('m', `${event[2] === 'encode' ? 'e' : 'p'}${open.key}`, () => event)
  }

  firstToken(open: Open, event: Event<'first_token'>): void {
    const isFirst = !open.firstTokenSeen
    open.firstTokenSeen = true
    if (this.#isOpen(open) && isFirst) this.#publish('m', `f${open.key}`, () => event)
  }

  progress(open: Open, outputBlocks: number): void {
    open.outputBlocks = outputBlocks
    if (!this.#isOpen(open)) return
    this.#progress.set(open.key, outputBlocks)
    this.#progressing ??= setTimeout(() => this.#publishProgress(), PROGRESS_MS).unref()
  }

  /** The ledger has the booking: then the other replicas need it too. */
  renewed(open: Open): void {
    if (this.#isOpen(open)) return
    open.renewedAt = this.#now()
    this.#open.set(open.key, open)
    this.#publish('s', `b${open.key}`, () => booked(open, true))
  }

  released(event: Event<'release'>): void {
    const key = event[1]
    if (!this.#open.delete(key)) return
    this.#progress.delete(key)
    this.#publish('d', key, () => event)
  }

  /** Ends bookings that were not renewed for a lease. */
  expire(): void {
    const now = this.#now()
    for (const [key, { renewedAt, leaseMs }] of this.#open)
      if (now > renewedAt + leaseMs) this.released(['release', key, endedAs('lapsed')])
  }

  /** A signal of this replica. Probes are not published: every replica makes its own. */
  signalled(signal: EngineSignal): void {
    if (signal.kind === 'probe') return
    const at = Math.max(this.#now(), 1 + (this.#drains.get(signal.engine)?.at ?? 0))
    this.#keep(signal, at)
    const operation = signal.kind === 'drain' ? 's' : 'p'
    this.#publish(operation, `s${signal.engine}`, () => ['signal', signal, at])
  }

  /** A signal of another replica. false: a later one holds. A drain is kept here too, for replicas that join later. */
  received(signal: EngineSignal, at: number): boolean {
    if (!this.#keep(signal, at)) return false
    if (signal.kind === 'drain') this.#publish('h', `s${signal.engine}`, () => ['signal', signal, at])
    return true
  }

  isDrained(engine: string): boolean {
    return this.#drains.get(engine)?.signal.draining ?? false
  }

  /** An engine that was removed and added again is a new one. */
  configured(engines: readonly string[]): void {
    for (const [engine, { signal, at }] of this.#drains) {
      if (engines.includes(engine)) continue
      this.#drains.delete(engine)
      this.#publish('x', `s${engine}`, () => ['signal', signal, at])
    }
  }

  /**
   * Everything open, in its state when it is read: what ends meanwhile is left out, what begins is published anyway.
   */
  *all(): Generator<readonly [operation: Operation, field: string, event: PoolEvent]> {
    // Copied: a booking that begins meanwhile is published by itself.
    const [drains, keys] = [Array.from(this.#drains), Array.from(this.#open.keys())]
    for (const [engine, { signal, at }] of drains) yield ['s', `s${engine}`, ['signal', signal, at]]
    for (const key of keys) {
      const open = this.#open.get(key)
      if (open !== undefined) yield ['s', `b${key}`, booked(open, true)]
    }
  }

  close(): void {
    clearTimeout(this.#progressing ?? undefined)
  }

  #keep(signal: EngineSignal, at: number): boolean {
    if (signal.kind !== 'drain') return true
    const known = this.#drains.get(signal.engine)
    // Of two at the same time, all replicas keep the drain.
    if (known !== undefined && (at < known.at || (at === known.at && (!signal.draining || known.signal.draining))))
      return false
    this.#drains.set(signal.engine, { signal, at })
    return true
  }

  #isOpen({ key }: Open): boolean {
    const open = this.#open.get(key)
    if (open !== undefined) open.renewedAt = this.#now()
    return open !== undefined
  }

  #publish(operation: Operation, field: string, event: () => PoolEvent): void {
    this.#publisher.publish(operation, field, event)
  }

  #publishProgress(): void {
    this.#progressing = null
    for (const [key, blocks] of this.#progress) this.#publish('s', `o${key}`, () => ['progress', key, blocks])
    this.#progress.clear()
  }
}

function booked(
  { blockTokens, admission, placement, firstTokenSeen, legsDone, outputBlocks }: Open,
  before: boolean,
): PoolEvent {
  const event = ['book', blockTokens, sent(admission), placement] as const
  return before ? [...event, { firstTokenSeen, legsDone, outputBlocks }] : event
}
