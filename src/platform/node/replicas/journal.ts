import type { StoredResponse, PoolName } from '../../../ports.ts'
import { bookingKey } from '../../../core/pool/bookings.ts'
import type { EarlyLegRole } from '../../../core/contract/legs.ts'
import { type Admission, endedAs, type EngineSignal, type Placement } from '../../../core/contract/contract.ts'
import type { BookingEvent } from '../../../core/contract/booking-events.ts'
import { type Course, JUST_MADE, sent, sentCall, type Told, type Word, WIRE_VERSION } from './messages.ts'

/** How far outputs have come may be this old. */
const PROGRESS_MS = 100
/** A line ends behind the word that reaches it. */
const LINE_CHARS = 65_536

/** Who reads along. */
export interface Reader {
  /** Takes lines, with their ends. Never throws. `taken`: they are on their way, and more of what is long may follow. */
  write(lines: string, taken?: () => void): void
}

export interface JournalParts {
  /** Names this process's life. */
  readonly id: string
  readonly version: string
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Responses this gateway knows the engines of. */
  readonly held: () => Iterable<readonly [id: string, holding: StoredResponse]>
}

/** What lives, as it is told. */
export interface Open {
  readonly key: string
  readonly pool: PoolName
  readonly blockTokens: number
  readonly leaseMs: number
  readonly admission: Admission
  readonly placement: Placement
  firstTokenSeen: boolean
  legsDone: readonly EarlyLegRole[]
  outputBlocks: number
  seenAt: number
}

export type Made = Pick<Open, 'pool' | 'blockTokens' | 'leaseMs' | 'admission' | 'placement'>

/**
 * What this replica chose and what becomes of it, told to all who read along: at the end of each turn of the loop, and to
 * newcomers from what lives. Nobody reading costs no words.
 */
export class Journal {
  readonly id: string
  readonly #parts: JournalParts
  readonly #open = new Map<string, Open>()
  /** What operators said last of each engine, to whichever replica. */
  readonly #orders = new Map<string, Order>()
  readonly #readers = new Set<Reader>()
  #words: Word[] = []
  readonly #progress = new Map<string, number>()
  #flushing: NodeJS.Immediate | null = null
  #progressing: NodeJS.Timeout | null = null

  constructor(parts: JournalParts) {
    this.#parts = parts
    this.id = parts.id
  }

  /** Live bookings. */
  get size(): number {
    return this.#open.size
  }

  /** It is told what lives, beside what happens, as fast as it takes it. The answer ends it. */
  join(reader: Reader): () => void {
    // What happened in this turn is in the snapshot.
    this.#flush()
    const lines = linesOf(this.#snapshot([...this.#open.keys()]))
    const { id, version } = this.#parts
    const next = (): void => {
      const line = this.#readers.has(reader) ? lines.next() : { done: true as const }
      // Not in one turn: streams of all others would wait for it.
      if (line.done !== true) reader.write(line.value, () => setImmediate(next))
    }
    this.#readers.add(reader)
    reader.write(`${JSON.stringify([['hello', { wire: WIRE_VERSION, id, version }]])}\n`, () => setImmediate(next))
    return () => this.#readers.delete(reader)
  }

  /** @param course the books had forgotten it: how far it had come */
  made(made: Made, course: Course | null = null): Open {
    const key = bookingKey(made.admission)
    const { firstTokenSeen, legsDone = [], outputBlocks } = course ?? JUST_MADE
    const known = this.#open.get(key)
    const open = known ?? { ...made, key, firstTokenSeen, legsDone, outputBlocks, seenAt: 0 }
    open.seenAt = this.#parts.now()
    this.#open.set(key, open)
    if (known === undefined) this.#say(() => booked(open, course !== null))
    return open
  }

  legDone(open: Open, bookingEvent: Extract<BookingEvent, readonly ['leg_done', ...unknown[]]>): void {
    open.legsDone = [...open.legsDone, bookingEvent[2]]
    if (this.#isAlive(open)) this.#say(() => bookingEvent)
  }

  firstToken(open: Open, bookingEvent: Extract<BookingEvent, readonly ['first_token', ...unknown[]]>): void {
    const isFirst = !open.firstTokenSeen
    open.firstTokenSeen = true
    if (this.#isAlive(open) && isFirst) this.#say(() => bookingEvent)
  }

  progress(open: Open, outputBlocks: number): void {
    open.outputBlocks = outputBlocks
    if (!this.#isAlive(open) || this.#readers.size === 0) return
    this.#progress.set(open.key, outputBlocks)
    this.#progressing ??= setTimeout(() => this.#sayProgress(), PROGRESS_MS).unref()
  }

  /** The books know it: then the others are to know it, too. */
  renewed(open: Open): void {
    if (this.#isAlive(open)) return
    open.seenAt = this.#parts.now()
    this.#open.set(open.key, open)
    this.#say(() => booked(open, true))
  }

  released(bookingEvent: Extract<BookingEvent, readonly ['release', ...unknown[]]>): void {
    if (!this.#open.delete(bookingEvent[1])) return
    this.#progress.delete(bookingEvent[1])
    this.#say(() => bookingEvent)
  }

  /** Said here, of an engine. Probes are made by everybody. */
  signalled(pool: PoolName, signal: EngineSignal): void {
    if (signal.kind === 'probe') return
    const at = Math.max(this.#parts.now(), 1 + (this.#orders.get(orderOf(pool, signal))?.at ?? 0))
    this.heard(pool, signal, at)
    this.#say(() => ['signal', pool, signal, at])
  }

  /** Is the engine drained now, by whatever replica? */
  isDrained(pool: PoolName, signal: EngineSignal): boolean {
    return this.#orders.get(orderOf(pool, signal))?.signal.draining ?? false
  }

  /** Said to another replica. false: it is old, and what was said since holds. */
  heard(pool: PoolName, signal: EngineSignal, at: number): boolean {
    if (signal.kind !== 'drain') return true
    const known = this.#orders.get(orderOf(pool, signal))
    // Two at once: both take the one.
    if (known !== undefined && (at < known.at || (at === known.at && !signal.draining))) return false
    this.#orders.set(orderOf(pool, signal), { pool, signal, at })
    return true
  }

  /** What leaves is another one when it comes back. */
  configured(pool: PoolName, engines: readonly string[]): void {
    for (const [name, order] of this.#orders)
      if (isSamePool(order.pool, pool) && !engines.includes(order.signal.engine)) this.#orders.delete(name)
  }

  /** By an LMCache server, whose next call may come to any replica. */
  reported(pool: PoolName, call: Told): void {
    this.#say(() => ['registry', pool, sentCall(call)])
  }

  kept(id: string, holding: StoredResponse): void {
    this.#say(() => ['held', id, holding])
  }

  forgotten(id: string): void {
    this.#say(() => ['forgotten', id])
  }

  /** A sign of life, and an end to what nobody spoke of for a lease. */
  beat(): void {
    const now = this.#parts.now()
    for (const [key, { seenAt, leaseMs }] of this.#open)
      if (now > seenAt + leaseMs) this.released(['release', key, endedAs('lapsed')])
    for (const reader of this.#readers) reader.write('[]\n')
  }

  /** Says goodbye. */
  close(): void {
    this.#say(() => ['bye'])
    this.#flush()
    clearTimeout(this.#progressing ?? undefined)
    this.#readers.clear()
  }

  /** Told to the others, and not ended. Whoever asks speaks of it. */
  #isAlive({ key }: Open): boolean {
    const open = this.#open.get(key)
    if (open !== undefined) open.seenAt = this.#parts.now()
    return open !== undefined
  }

  #say(word: () => Word): void {
    if (this.#readers.size === 0) return
    this.#words.push(word())
    this.#flushing ??= setImmediate(() => this.#flush())
  }

  #sayProgress(): void {
    this.#progressing = null
    for (const [key, blocks] of this.#progress) this.#say(() => ['progress', key, blocks])
    this.#progress.clear()
  }

  #flush(): void {
    if (this.#flushing !== null) clearImmediate(this.#flushing)
    this.#flushing = null
    if (this.#words.length === 0) return
    const words = this.#words
    this.#words = []
    for (const line of linesOf(words)) for (const reader of this.#readers) reader.write(line)
  }

  /** As it is when it is written: what ends meanwhile is not told any more, and what begins is told at once. */
  *#snapshot(keys: readonly string[]): Generator<Word> {
    for (const key of keys) {
      const open = this.#open.get(key)
      if (open !== undefined) yield booked(open, true)
    }
    for (const { pool, signal, at } of this.#orders.values()) yield ['signal', pool, signal, at]
    for (const [response, holding] of this.#parts.held()) yield ['held', response, holding]
    yield ['all']
  }
}

/** An operator's. */
interface Order {
  readonly pool: PoolName
  readonly signal: Extract<EngineSignal, { readonly kind: 'drain' }>
  readonly at: number
}

const orderOf = (pool: PoolName, { engine }: EngineSignal): string => JSON.stringify([pool, engine])
const isSamePool = (one: PoolName, other: PoolName): boolean => one[0] === other[0] && one[1] === other[1]

function* linesOf(words: Iterable<Word>): Generator<string> {
  let line = ''
  for (const word of words) {
    line += `${line === '' ? '[' : ','}${JSON.stringify(word)}`
    if (line.length < LINE_CHARS) continue
    yield `${line}]\n`
    line = ''
  }
  if (line !== '') yield `${line}]\n`
}

function booked(
  { pool, blockTokens, admission, placement, firstTokenSeen, legsDone, outputBlocks }: Open,
  before: boolean,
): Word {
  const word = ['book', pool, blockTokens, sent(admission), placement] as const
  return before ? [...word, { firstTokenSeen, legsDone, outputBlocks }] : word
}
