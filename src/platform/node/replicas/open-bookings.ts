/** Writes the open bookings of this replica in one pool to the server and publishes each change. */
import {
  type Admission,
  endedAs,
  type EngineSignal,
  type Outcome,
  type Placement,
  type StageTimes,
  type Usage,
} from '../../../core/contract/contract.ts'
import type { EarlyLegRole } from '../../../core/contract/legs.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { Lease } from '../../../ports.ts'
import type { Link } from './connection.ts'
import { type PoolEvent, sent } from './messages.ts'
import { SCRIPTS, type Script } from './scripts.ts'

/** All bookings are written in pieces, so that no command blocks the server for long. */
const PIECE_CHARS = 65_536
/** Unanswered pieces while all bookings are written. */
const WINDOW_CHARS = 1_048_576
/** Unanswered events. Beyond it (a slow or frozen server) turns are dropped; all bookings are written again later. */
const LONGEST_QUEUE_CHARS = 8_388_608
const RETRY_MS = 100

/** What an event changes in the hash of open bookings: see scripts.ts. */
type Operation = 's' | 'd' | 'p' | 'h'
type Drain = Extract<EngineSignal, { readonly kind: 'drain' }>

/** Names of one pool on the server. All have the same hash tag, so they lie in one slot of a cluster. */
export interface PoolKeys {
  readonly tag: string
  readonly number: string
  readonly present: string
  readonly channel: string
  readonly open: (replica: string) => string
}

export interface PublishingParts {
  readonly replica: string
  readonly keys: PoolKeys
  /** Carries the events. */
  readonly publish: Pick<Link, 'client' | 'run'>
  readonly leaseMs: number
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly rejected: (error: Error) => void
}

export interface Made {
  readonly admission: Admission
  readonly placement: Placement
  readonly blockTokens: number
  readonly leaseMs: number
}

/** A booking that this replica has made. */
export class OpenBooking implements Lease {
  readonly key: string
  readonly made: Made
  readonly inProcess: boolean
  firstTokenSeen = false
  legsDone: readonly EarlyLegRole[] = []
  outputBlocks = 0
  renewedAt = 0
  readonly #lease: Lease
  readonly #bookings: OpenBookings

  constructor(lease: Lease, bookings: OpenBookings, made: Made) {
    this.#lease = lease
    this.#bookings = bookings
    this.made = made
    this.key = bookingKey(made.admission)
    this.inProcess = lease.inProcess ?? false
  }

  legDone(part: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    this.legsDone = [...this.legsDone, part]
    this.#bookings.changed(this, ['leg_done', this.key, part, stages, usage])
    return this.#lease.legDone!(part, stages, usage)
  }

  firstToken(stages: StageTimes): Promise<void> {
    if (!this.firstTokenSeen) this.#bookings.changed(this, ['first_token', this.key, stages])
    this.firstTokenSeen = true
    return this.#lease.firstToken(stages)
  }

  progress(outputBlocks: number): Promise<void> {
    this.outputBlocks = outputBlocks
    this.#bookings.progressed(this)
    return this.#lease.progress(outputBlocks)
  }

  /** The ledger has the booking: then the other replicas need it too. */
  async renew(): Promise<void> {
    await this.#lease.renew()
    this.#bookings.add(this)
  }

  release(outcome: Outcome): Promise<void> {
    this.#bookings.released(this.key, outcome)
    return this.#lease.release(outcome)
  }

  /** The booking and its progress, each with its field of the hash. */
  *events(): Generator<readonly [field: string, event: PoolEvent]> {
    const { key, made } = this
    yield [`b${key}`, ['book', made.blockTokens, sent(made.admission), made.placement]]
    for (const part of this.legsDone) yield [`${part[0]}${key}`, ['leg_done', key, part, {}, null]]
    if (this.firstTokenSeen) yield [`f${key}`, ['first_token', key, {}]]
    if (this.outputBlocks > 0) yield [`o${key}`, ['progress', key, this.outputBlocks]]
  }
}

/**
 * Open bookings of this replica in one pool, and the drains that hold there. After anything that failed, all are
 * written again under the next generation; the scripts refuse commands of an earlier one. A failed turn is never sent
 * again: later turns may have overtaken it.
 */
export class OpenBookings {
  readonly #parts: PublishingParts
  readonly #open = new Map<string, OpenBooking>()
  /** Latest drain or undrain of each engine, by whichever replica it was set. */
  readonly #drains = new Map<string, { readonly signal: Drain; readonly at: number }>()
  readonly #progressed = new Set<OpenBooking>()
  /** A generation has begun. */
  #isAccepting = false
  #generation = 0
  /** The server has acknowledged this generation; 0: none. */
  #registered = 0
  /** Number of the last message of this replica. */
  #last = 0
  #turn: string[] = []
  #turnChars = 0
  #flushing: NodeJS.Immediate | undefined
  #unansweredChars = 0
  /** Turns were dropped: all follows once the server has answered everything. */
  #hasDropped = false
  #retry: NodeJS.Timeout | undefined
  #windowOpened: () => void = () => undefined

  constructor(parts: PublishingParts) {
    this.#parts = parts
  }

  /** Generation that heartbeats renew. */
  get registered(): number {
    return this.#registered
  }

  /** The connection is up or down. */
  connected(isUp: boolean): void {
    this.#reset()
    this.#windowOpened()
    if (isUp) void this.#writeAll()
  }

  /** The server does not have what was published under this generation. */
  lost(generation: number): void {
    if (generation === this.#generation && this.#parts.publish.client !== null) this.#writeAllLater()
  }

  /** A booking that was made, or renewed. */
  add(open: OpenBooking): void {
    open.renewedAt = this.#parts.now()
    const isNew = !this.#open.has(open.key)
    this.#open.set(open.key, open)
    if (isNew) for (const [field, event] of open.events()) this.#publish('s', field, event)
  }

  changed(open: OpenBooking, event: Extract<PoolEvent, readonly ['leg_done' | 'first_token', ...unknown[]]>): void {
    open.renewedAt = this.#parts.now()
    const mark = event[0] === 'first_token' ? 'f' : event[2][0]
    if (this.#open.has(open.key)) this.#publish('s', `${mark}${open.key}`, event)
  }

  /** Published by the next `tick`. */
  progressed(open: OpenBooking): void {
    open.renewedAt = this.#parts.now()
    if (this.#open.has(open.key)) this.#progressed.add(open)
  }

  released(key: string, outcome: Outcome): void {
    if (this.#open.delete(key)) this.#publish('d', key, ['release', key, outcome])
  }

  /** Publishes progress, and ends bookings that were not renewed for a lease. */
  tick(): void {
    for (const { key, outputBlocks } of this.#progressed)
      if (this.#open.has(key)) this.#publish('s', `o${key}`, ['progress', key, outputBlocks])
    this.#progressed.clear()
    const now = this.#parts.now()
    for (const [key, { renewedAt, made }] of this.#open)
      if (now > renewedAt + made.leaseMs) this.released(key, endedAs('lapsed'))
  }

  /** A signal of this replica. Probes are not published: every replica makes its own. */
  signalled(signal: EngineSignal): void {
    if (signal.kind === 'excused') this.announce(['signal', signal, this.#parts.now()])
    if (signal.kind === 'drain')
      this.drained(signal, Math.max(this.#parts.now(), 1 + (this.#drains.get(signal.engine)?.at ?? 0)))
  }

  /** Keeps a drain of any replica and publishes it for those that join later. false: a later one holds. */
  drained(signal: Drain, at: number): boolean {
    const known = this.#drains.get(signal.engine)
    // Of two at the same time, all replicas keep the drain.
    if (known !== undefined && (at < known.at || (at === known.at && (!signal.draining || known.signal.draining))))
      return false
    this.#drains.set(signal.engine, { signal, at })
    this.#publish('s', `s${signal.engine}`, ['signal', signal, at])
    return true
  }

  isDrained(engine: string): boolean {
    return this.#drains.get(engine)?.signal.draining ?? false
  }

  /** An engine that was removed and added again is a new one. */
  configured(engines: readonly string[]): void {
    const gone = [...this.#drains.keys()].filter((engine) => !engines.includes(engine))
    for (const engine of gone) this.#drains.delete(engine)
    if (gone.length > 0 && this.#isAccepting) this.#writeAllLater()
  }

  /** Publishes an event that changes no booking of this replica. */
  announce(event: PoolEvent): void {
    this.#publish('p', '', event)
  }

  /** Removes this replica, behind everything published before. Resolves when the server has answered. */
  async leave(): Promise<void> {
    this.#flush()
    const generation = this.#generation
    this.#reset()
    if (this.#parts.publish.client !== null) await this.#send(SCRIPTS.leave, generation, ['0'])
  }

  #publish(operation: Operation, field: string, event: PoolEvent): void {
    if (!this.#isAccepting || this.#hasDropped) return
    this.#add(operation, field, event)
    this.#flushing ??= setImmediate(() => this.#flush())
  }

  #add(operation: Operation, field: string, event: PoolEvent): void {
    const text = JSON.stringify(event)
    this.#turn.push(operation, field, text)
    this.#turnChars += field.length + text.length
    if (this.#turnChars >= PIECE_CHARS) this.#flush()
  }

  #flush(): void {
    clearImmediate(this.#flushing)
    this.#flushing = undefined
    const [turn, chars] = [this.#turn, this.#turnChars]
    if (turn.length === 0) return
    this.#turn = []
    this.#turnChars = 0
    if (this.#unansweredChars > LONGEST_QUEUE_CHARS) this.#hasDropped = true
    else this.#run(SCRIPTS.publish, [String(this.#last), ...turn], chars)
  }

  #run(script: Script, given: readonly string[], chars: number): void {
    const generation = this.#generation
    const answered = (number: number): void => {
      this.#unansweredChars -= chars
      if (this.#unansweredChars < WINDOW_CHARS) this.#windowOpened()
      if (generation !== this.#generation) return
      if (number > 0) [this.#registered, this.#last] = [generation, number]
      if (number === 0 || (this.#hasDropped && this.#unansweredChars === 0)) this.#writeAllLater()
    }
    this.#unansweredChars += chars
    this.#send(script, generation, given).then(
      (number) => answered(Number(number)),
      (error: Error) => {
        if (generation === this.#generation) this.#parts.rejected(error)
        answered(0)
      },
    )
  }

  #send(script: Script, generation: number, given: readonly string[]): Promise<unknown> {
    const { replica, keys, publish } = this.#parts
    const own = [keys.number, keys.open(replica), keys.present]
    return publish.run(script, keys.tag, own, [replica, String(generation), keys.channel, ...given])
  }

  /** Nothing is published until the next generation begins. */
  #reset(): void {
    this.#generation += 1
    this.#registered = 0
    this.#isAccepting = false
    this.#turn = []
    this.#turnChars = 0
    clearTimeout(this.#retry)
  }

  #writeAllLater(): void {
    this.#reset()
    this.#retry = setTimeout(() => void this.#writeAll(), RETRY_MS).unref()
  }

  /** Begins a generation. Bookings that begin or end meanwhile publish that themselves. */
  async #writeAll(): Promise<void> {
    const generation = this.#generation
    this.#isAccepting = true
    this.#hasDropped = false
    this.#run(SCRIPTS.begin, [String(this.#parts.leaseMs), String(this.#last)], 0)
    for (const [engine, { signal, at }] of this.#drains) this.#add('s', `s${engine}`, ['signal', signal, at])
    for (const open of this.#open.values()) {
      for (const [field, event] of open.events()) this.#add('h', field, event)
      if (this.#turn.length > 0) continue
      await this.#window(generation)
      if (generation !== this.#generation) return
    }
    this.announce(['whole'])
  }

  /** Resolves when the server has answered enough. Streams of this process are served between two pieces, too. */
  async #window(generation: number): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve))
    const { publish } = this.#parts
    while (publish.client !== null && generation === this.#generation && this.#unansweredChars >= WINDOW_CHARS)
      await new Promise<void>((resolve) => (this.#windowOpened = resolve))
  }
}
