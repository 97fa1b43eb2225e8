import type { ReportPartial } from '../src/core/reports/report-partial.ts'
import type { RequestRecord } from '../src/core/reports/request-record.ts'

/** Reports received at one time. */
interface JournalEntry {
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
