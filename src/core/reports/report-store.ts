/** Store of the reports of many requests, bounded in number, bytes and time. */
import { combine, type TtftReport } from './ttft-report.ts'
import { ReportFacts } from './report-facts.ts'
import type { ReportPartial } from './report-partial.ts'
import { readItemId, readReportId, type ReportId } from './report-id.ts'

export interface StoreLimits {
  readonly maxRequests: number
  readonly maxBytes: number
  /** Time to live from the first report of a request. */
  readonly ttlMs: number
}

interface StoredReport extends TtftReport {
  /** The request's own id, as far as it is known. */
  readonly id: string
}

export interface AddedReport extends StoredReport {
  /** Effect of a report: none, a new stage, or the last missing stage. */
  readonly news: 'none' | 'stage' | 'complete'
}

/** Reports under one id. */
interface Entry<Note> {
  readonly key: string
  /** Possible ids of the request, the most exact first. One: it is the request's own. */
  readonly candidates: readonly string[]
  readonly facts: ReportFacts
  /** Arrival of the first report. */
  readonly at: number
  bytes: number
  note: Note | null
}

/** Entry, maps and arrays, as measured; a fact is three doubles in an array that grows by half. */
const ENTRY_BYTES = 560
const FACT_BYTES = 36

/**
 * Limit of ids that may stand for one request. A client may give all its requests one label, and reading a report
 * reads all of them.
 */
const MAX_STAND_INS = 128

/**
 * Ids that engines have extended are stored separately and joined when read, so that the order of arrival does not
 * matter. `Note` is the gateway's own record.
 */
export class ReportStore<Note> {
  #limits: StoreLimits
  readonly #noteBytes: (note: Note) => number
  /** Key → entry, oldest first. An exact and an inexact id may be spelt alike; the key distinguishes them. */
  readonly #entries = new Map<string, Entry<Note>>()
  /** Id → keys of the inexact entries that may stand for it. */
  readonly #standIns = new Map<string, Set<string>>()
  #bytes = 0
  #order = 0

  constructor(limits: StoreLimits, noteBytes: (note: Note) => number = () => 0) {
    this.#limits = limits
    this.#noteBytes = noteBytes
  }

  /** Changes the limits. The next report removes what exceeds them. */
  setLimits(limits: StoreLimits): void {
    this.#limits = limits
  }

  get size(): number {
    return this.#entries.size
  }

  /** Upper estimate. */
  get bytes(): number {
    return this.#bytes
  }

  add(partial: ReportPartial, now: number): AddedReport {
    this.expire(now)
    const { candidates, child } = idOf(partial)
    const entry = this.#entryFor(candidates, now)
    const id = this.#resolve(candidates)
    const before = this.#report(id)
    const changed = entry.facts.add(partial, child, this.#order++)
    this.#updateBytes(entry)
    const after = changed || before === null ? this.#report(id)! : before
    this.#shrink()
    return { id, ...after, news: newsOf(before, after) }
  }

  /** Stores the gateway's note under the request's own id. The first note stays. */
  note(id: string, note: Note, now: number): void {
    this.expire(now)
    const entry = this.#entryFor([readReportId(id).candidates[0]!], now)
    if (entry.note !== null) return
    entry.note = note
    this.#updateBytes(entry)
    this.#shrink()
  }

  /** Finds reports by the request's own id, or by any id derived from it. */
  find(id: string, now: number): (StoredReport & { readonly note: Note | null }) | null {
    this.expire(now)
    const item = readItemId(id)
    return this.#find(readReportId(id)) ?? (item === null ? null : this.#find(item))
  }

  #find({ candidates }: ReportId): (StoredReport & { readonly note: Note | null }) | null {
    const key = this.#resolve(candidates)
    const report = this.#report(key)
    return report === null ? null : { id: key, ...report, note: this.#entries.get(exactKey(key))?.note ?? null }
  }

  /** Removes expired entries. */
  expire(now: number): void {
    for (const entry of this.#entries.values()) {
      if (entry.at + this.#limits.ttlMs > now) return
      this.#forget(entry)
    }
  }

  /** The most exact candidate that is a request's own id; else the least exact. */
  #resolve(candidates: readonly string[]): string {
    return candidates.find((candidate) => this.#entries.has(exactKey(candidate))) ?? candidates.at(-1)!
  }

  #report(id: string): TtftReport | null {
    const all: ReportFacts[] = []
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
    const entry: Entry<Note> = { key, candidates, facts: new ReportFacts(), at: now, bytes: 0, note: null }
    this.#entries.set(key, entry)
    return entry
  }

  /** Adds a stand-in; the least recently reported one is dropped first. */
  #standIn(candidate: string, key: string): void {
    const keys = this.#standIns.get(candidate) ?? new Set()
    this.#standIns.set(candidate, keys)
    keys.delete(key)
    keys.add(key)
    if (keys.size > MAX_STAND_INS) keys.delete(keys.keys().next().value!)
  }

  #updateBytes(entry: Entry<Note>): void {
    const ids = entry.key.length + entry.candidates.reduce((sum, candidate) => sum + candidate.length, 0)
    const bytes =
      ENTRY_BYTES * entry.candidates.length +
      ids +
      FACT_BYTES * entry.facts.size +
      (entry.note === null ? 0 : this.#noteBytes(entry.note))
    this.#bytes += bytes - entry.bytes
    entry.bytes = bytes
  }

  /** Removes the oldest entries. */
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

/** Gateways and proxies (role `meta`) use the request's own id, without a suffix. */
function idOf({ role, id }: ReportPartial): ReportId {
  const read = (role === 'encoder' ? readItemId(id) : null) ?? readReportId(id)
  return role === 'meta' ? { ...read, candidates: [read.candidates[0]!] } : read
}

function newsOf(before: TtftReport | null, after: TtftReport): AddedReport['news'] {
  const { ttft_ms: ttftMs } = after.combined
  if (ttftMs !== null) return before?.combined.ttft_ms === ttftMs ? 'none' : 'complete'
  return valuesKnown(after) > (before === null ? 0 : valuesKnown(before)) ? 'stage' : 'none'
}

const valuesKnown = ({ combined }: TtftReport): number =>
  Object.values(combined).filter((value) => value !== null).length
