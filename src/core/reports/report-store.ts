/** Reports of many requests, bounded in number, bytes and time. */
import { combine, type TtftReport } from './combine.ts'
import { ReportFields } from './report-fields.ts'
import { type ReportPartial, readItemId, readReportId, type ReportId } from './partial.ts'

export interface StoreLimits {
  readonly maxRequests: number
  readonly maxBytes: number
  /** Since the first word of a request. */
  readonly ttlMs: number
}

export interface Reported extends TtftReport {
  /** The request's own id, as far as it is known. */
  readonly id: string
}

export interface Added extends Reported {
  /** What is new: nothing, a stage, or the last one that was missing. */
  readonly news: 'none' | 'stage' | 'complete'
}

/** What was said under one id. */
interface Entry<Note> {
  readonly key: string
  /** Ids of the request it may be, most exact first; one: it is the request's own. */
  readonly candidates: readonly string[]
  readonly facts: ReportFields
  /** Of its first word. */
  readonly at: number
  bytes: number
  note: Note | null
}

/** Entry, maps and arrays, as measured; a fact is three doubles in an array that grows by half. */
const ENTRY_BYTES = 560
const FACT_BYTES = 36

/** A client may give all its requests one label, and each report is read with all that may stand for its id. */
const MOST_STAND_INS = 128

/**
 * Ids that engines have lengthened are kept apart from the ids they may stand for, and joined when read: so it does
 * not matter which came first. `Note` is what the gateway itself knows of the request.
 */
export class ReportStore<Note> {
  #limits: StoreLimits
  readonly #noteBytes: (note: Note) => number
  /**
   * Key → entry, oldest first. An id that is exact and one that is not may be spelt alike: the key tells them apart.
   */
  readonly #entries = new Map<string, Entry<Note>>()
  /** Id → keys of the inexact entries that may stand for it. */
  readonly #standIns = new Map<string, Set<string>>()
  #bytes = 0
  #order = 0

  constructor(limits: StoreLimits, noteBytes: (note: Note) => number = () => 0) {
    this.#limits = limits
    this.#noteBytes = noteBytes
  }

  /** What is too much or too old by the new limits goes with the next word. */
  setLimits(limits: StoreLimits): void {
    this.#limits = limits
  }

  get size(): number {
    return this.#entries.size
  }

  /** An estimate from above. */
  get bytes(): number {
    return this.#bytes
  }

  add(partial: ReportPartial, now: number): Added {
    this.expire(now)
    const { candidates, child } = idOf(partial)
    const entry = this.#entryFor(candidates, now)
    const id = this.#resolve(candidates)
    const before = this.#read(id)
    const changed = entry.facts.add(partial, child, this.#order++)
    this.#weigh(entry)
    const after = changed || before === null ? this.#read(id)! : before
    this.#shrink()
    return { id, ...after, news: newsOf(before, after) }
  }

  /** Puts down what the gateway knows under the request's own id; the first note stays. */
  note(id: string, note: Note, now: number): void {
    this.expire(now)
    const entry = this.#entryFor([readReportId(id).candidates[0]!], now)
    if (entry.note !== null) return
    entry.note = note
    this.#weigh(entry)
    this.#shrink()
  }

  /** By the request's own id, or by any that an engine made of it. */
  find(id: string, now: number): (Reported & { readonly note: Note | null }) | null {
    this.expire(now)
    const item = readItemId(id)
    return this.#find(readReportId(id)) ?? (item === null ? null : this.#find(item))
  }

  #find({ candidates }: ReportId): (Reported & { readonly note: Note | null }) | null {
    const key = this.#resolve(candidates)
    const report = this.#read(key)
    return report === null ? null : { id: key, ...report, note: this.#entries.get(exactKey(key))?.note ?? null }
  }

  /** Forgets what is older than its time. */
  expire(now: number): void {
    for (const entry of this.#entries.values()) {
      if (entry.at + this.#limits.ttlMs > now) return
      this.#forget(entry)
    }
  }

  /** The most exact candidate that somebody has used as the request's own id; else the least exact. */
  #resolve(candidates: readonly string[]): string {
    return candidates.find((candidate) => this.#entries.has(exactKey(candidate))) ?? candidates.at(-1)!
  }

  #read(id: string): TtftReport | null {
    const all: ReportFields[] = []
    const own = this.#entries.get(exactKey(id))
    if (own !== undefined) all.push(own.facts)
    for (const key of this.#standIns.get(id) ?? []) {
      const entry = this.#entries.get(key)!
      if (this.#resolve(entry.candidates) === id) all.push(entry.facts)
    }
    return all.length === 0 ? null : combine(all)
  }

  #entryFor(candidates: readonly string[], now: number): Entry<Note> {
    const key = candidates.length === 1 ? exactKey(candidates[0]!) : `~${candidates.join('~')}`
    if (candidates.length > 1) for (const candidate of candidates) this.#standIn(candidate, key)
    const known = this.#entries.get(key)
    if (known !== undefined) return known
    const entry: Entry<Note> = { key, candidates, facts: new ReportFields(), at: now, bytes: 0, note: null }
    this.#entries.set(key, entry)
    return entry
  }

  /** The last to be spoken of is the last to go. */
  #standIn(candidate: string, key: string): void {
    const keys = this.#standIns.get(candidate) ?? new Set()
    this.#standIns.set(candidate, keys)
    keys.delete(key)
    keys.add(key)
    if (keys.size > MOST_STAND_INS) keys.delete(keys.keys().next().value!)
  }

  #weigh(entry: Entry<Note>): void {
    const ids = entry.key.length + entry.candidates.reduce((sum, candidate) => sum + candidate.length, 0)
    const bytes =
      ENTRY_BYTES * entry.candidates.length +
      ids +
      FACT_BYTES * entry.facts.size +
      (entry.note === null ? 0 : this.#noteBytes(entry.note))
    this.#bytes += bytes - entry.bytes
    entry.bytes = bytes
  }

  /** The oldest go first. */
  #shrink(): void {
    const { maxRequests, maxBytes } = this.#limits
    if (this.#entries.size <= maxRequests && this.#bytes <= maxBytes) return
    for (const entry of this.#entries.values()) {
      if (this.#entries.size <= maxRequests && this.#bytes <= maxBytes) return
      this.#forget(entry)
    }
  }

  #forget(entry: Entry<Note>): void {
    this.#entries.delete(entry.key)
    this.#bytes -= entry.bytes
    if (entry.candidates.length === 1) return
    for (const candidate of entry.candidates) {
      const keys = this.#standIns.get(candidate)
      keys?.delete(entry.key)
      if (keys?.size === 0) this.#standIns.delete(candidate)
    }
  }
}

const exactKey = (id: string): string => `=${id}`

/** Gateways and proxies, who speak as `meta`, know a request by its own id: nothing was added to it. */
function idOf({ role, id }: ReportPartial): ReportId {
  const read = (role === 'encoder' ? readItemId(id) : null) ?? readReportId(id)
  return role === 'meta' ? { ...read, candidates: [read.candidates[0]!] } : read
}

function newsOf(before: TtftReport | null, after: TtftReport): Added['news'] {
  const { ttft_ms: ttftMs } = after.combined
  if (ttftMs !== null) return before?.combined.ttft_ms === ttftMs ? 'none' : 'complete'
  return valuesKnown(after) > (before === null ? 0 : valuesKnown(before)) ? 'stage' : 'none'
}

const valuesKnown = ({ combined }: TtftReport): number =>
  Object.values(combined).filter((value) => value !== null).length
