import type { ReportPartial } from '../src/core/reports/partial.ts'
import type { RequestRecord } from '../src/core/reports/combine.ts'
import type { BookingSnapshot, ClusterSnapshot } from '../src/core/pool/snapshot.ts'

/** Lateness after which an alarm counts as lost, milliseconds. */
const LOST_MS = 10_000

/** The single alarm of an object. The platform has lost alarms; without one, nothing would expire or be stored. */
export class Alarm {
  readonly #storage: Pick<DurableObjectStorage, 'setAlarm'>
  readonly #now: () => number
  /** Time of the alarm, milliseconds since the epoch; null: not set. */
  #at: number | null = null

  constructor(storage: Pick<DurableObjectStorage, 'setAlarm'>, now: () => number) {
    this.#storage = storage
    this.#now = now
  }

  rang(): void {
    this.#at = null
  }

  /** Sets the alarm for `at` or earlier, and sets a lost one again. */
  by(at: number): void {
    if (this.#isLost()) this.#set(this.#now())
    else if (this.#at === null || this.#at > at) this.#set(at)
  }

  /** Checks the alarm without changing its time. */
  setIfLost(): void {
    if (this.#isLost()) this.#set(this.#now())
  }

  #set(at: number): void {
    this.#at = at
    // Unconfirmed write: otherwise every response that sets an alarm would wait for storage.
    void this.#storage.setAlarm(at, { allowUnconfirmed: true })
  }

  #isLost(): boolean {
    return this.#at !== null && this.#now() - this.#at > LOST_MS
  }
}

/** A stored value may have 2 MB; what structured clone adds stays well under the other half. */
const CHUNK_BYTES = 1_000_000
/** Estimated bytes of ids and placement; blocks are counted exactly. */
const BOOKING_BYTES = 1_000

const HEAD = 'snapshot'
const chunkKey = (index: number) => `snapshot:bookings:${index}`

type Head = Omit<ClusterSnapshot, 'bookings'> & { readonly chunks: number }

/** Snapshot in an object's storage, with its bookings split over several values. */
export class SnapshotStore {
  readonly #storage: DurableObjectStorage
  #chunks: number

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
    this.#chunks = this.#storage.kv.get<Head>(HEAD)?.chunks ?? 0
  }

  /** Replaces the snapshot atomically. Not awaited: losing the last seconds costs a `resume`, not a request. */
  async save({ bookings, ...rest }: ClusterSnapshot): Promise<void> {
    const chunks = inChunks(bookings)
    const entries: [string, unknown][] = chunks.map((chunk, index) => [chunkKey(index), chunk])
    const head: Head = { ...rest, chunks: chunks.length }
    const surplus = Array.from({ length: Math.max(0, this.#chunks - chunks.length) }, (_, index) =>
      chunkKey(chunks.length + index),
    )
    this.#chunks = chunks.length
    // Writes with no await in between are one transaction.
    const writes: Promise<unknown>[] = [...entries, [HEAD, head] as const].map(([key, value]) =>
      this.#storage.put(key, value, { allowUnconfirmed: true }),
    )
    if (surplus.length > 0) writes.push(...surplus.map((key) => this.#storage.delete(key, { allowUnconfirmed: true })))
    await Promise.all(writes)
  }

  load(): ClusterSnapshot | null {
    const head = this.#storage.kv.get<Head>(HEAD)
    if (head === undefined) return null
    const { chunks, ...rest } = head
    const bookings = Array.from(
      { length: chunks },
      (_, index) => this.#storage.kv.get<BookingSnapshot[]>(chunkKey(index)) ?? [],
    )
    return { ...rest, bookings: bookings.flat() }
  }
}

function inChunks(bookings: readonly BookingSnapshot[]): BookingSnapshot[][] {
  const chunks: BookingSnapshot[][] = []
  let room = 0
  for (const booking of bookings) {
    const bytes = BOOKING_BYTES + booking.admission.blocks.byteLength
    if (bytes > room || chunks.length === 0) {
      chunks.push([])
      room = CHUNK_BYTES
    }
    chunks.at(-1)!.push(booking)
    room -= bytes
  }
  return chunks
}

/** Reports received at one time. */
export interface JournalEntry {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly partials: readonly ReportPartial[]
  readonly records: readonly RequestRecord[]
}

/** A stored value may have 2 MB; what structured clone makes of an entry stays well under it. */
const SEGMENT_ITEMS = 1_500
const PREFIX = 'journal:'

/** Journal of recent reports in segments of some seconds, which survives an eviction. */
export class ReportJournal {
  /** Retention of a segment, milliseconds. */
  lifeMs = 600_000
  readonly #storage: DurableObjectStorage
  #waiting: JournalEntry[] = []
  /** Stored segments, oldest first: key and time. */
  readonly #segments: { readonly key: string; readonly at: number }[] = []
  #next = 0

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
  }

  add(entry: JournalEntry): void {
    this.#waiting.push(entry)
  }

  /** Writes pending reports and deletes old segments. true: some are stored. */
  async save(now: number): Promise<boolean> {
    const writes: Promise<unknown>[] = []
    for (const segment of inSegments(this.#waiting)) {
      const key = keyOf(this.#next++)
      this.#segments.push({ key, at: now })
      writes.push(this.#storage.put(key, segment, { allowUnconfirmed: true }))
    }
    this.#waiting = []
    while (this.#segments.length > 0 && now - this.#segments[0]!.at > this.lifeMs) {
      writes.push(this.#storage.delete(this.#segments.shift()!.key, { allowUnconfirmed: true }))
    }
    await Promise.all(writes)
    return this.#segments.length > 0
  }

  /** Reads all stored reports in order. */
  load(): JournalEntry[] {
    const all: JournalEntry[] = []
    for (const [key, segment] of this.#storage.kv.list<JournalEntry[]>({ prefix: PREFIX })) {
      this.#segments.push({ key, at: segment.at(-1)?.at ?? 0 })
      this.#next = Math.max(this.#next, Number(key.slice(PREFIX.length)) + 1)
      all.push(...segment)
    }
    return all
  }
}

/** Returns a key that sorts like its number. */
const keyOf = (number: number): string => PREFIX + String(number).padStart(12, '0')

function inSegments(entries: readonly JournalEntry[]): JournalEntry[][] {
  const segments: JournalEntry[][] = []
  let room = 0
  for (const entry of entries) {
    const items = 1 + entry.partials.length + 2 * entry.records.length
    if (items > room || segments.length === 0) {
      segments.push([])
      room = SEGMENT_ITEMS
    }
    segments.at(-1)!.push(entry)
    room -= items
  }
  return segments
}
