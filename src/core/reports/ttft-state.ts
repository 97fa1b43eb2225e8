/** Reports and rollups of the requests of one shard. A Durable Object and Node add clock, transport and storage. */
import { BoundedMap } from '../bounded-map.ts'
import type { TtftReport } from './ttft-report.ts'
import type { RecordBatch, RequestRecord } from './request-record.ts'
import { type ReportPartial, STAGES } from './report-partial.ts'
import { type AddedReport, ReportStore, type StoreLimits } from './report-store.ts'
import { type RollupGroup, Rollups } from './rollups.ts'

/** One request: the reports, and the gateway's record. */
export interface RequestReport extends TtftReport {
  readonly id: string
  readonly record: RequestRecord | null
}

/** Last batch of one gateway. */
export interface SourceMark {
  readonly epoch: number
  readonly seq: number
  /** Milliseconds since the epoch. */
  readonly at: number
}

interface TtftStateOptions {
  /** null: reports are off, only the rollups are kept. */
  readonly store: StoreLimits | null
}

interface RecordNote {
  readonly record: RequestRecord
  /** Its reported stages are in the rollups. */
  counted: boolean
}

const MAX_SOURCES = 10_000
/** A gateway does not repeat a batch after a day. */
const SOURCE_LIFE_MS = 86_400_000
const RECORD_BYTES = 900

export class TtftState {
  readonly #store: ReportStore<RecordNote> | null
  readonly #rollups = new Rollups()
  readonly #sources = new BoundedMap<string, SourceMark>(MAX_SOURCES)
  /** The gateway's ids of requests that engines know by another id. */
  readonly #aliases = new Map<string, string>()
  #maxAliases: number
  #replaying = false

  constructor({ store }: TtftStateOptions) {
    this.#store = store === null ? null : new ReportStore(store, () => RECORD_BYTES)
    this.#maxAliases = store?.maxRequests ?? 0
  }

  /** Number of requests, and an upper estimate of bytes. */
  get held(): { readonly requests: number; readonly bytes: number } {
    return { requests: this.#store?.size ?? 0, bytes: this.#store?.bytes ?? 0 }
  }

  /** Does nothing when reports are off. */
  report(partials: readonly ReportPartial[], now: number): AddedReport[] {
    const store = this.#store
    if (store === null) return []
    return partials.map((partial) => {
      const added = store.add(partial, now)
      if (added.news === 'complete') this.#count(added.id, now)
      return added
    })
  }

  /** Applies a batch once. false: it was applied before. */
  flush({ source, epoch, seq, records }: RecordBatch, now: number): boolean {
    const mark = this.#sources.get(source)
    if (mark !== undefined && (epoch < mark.epoch || (epoch === mark.epoch && seq <= mark.seq))) return false
    this.#sources.set(source, { epoch, seq, at: now })
    for (const record of records) {
      this.#rollups.record(record)
      this.#note(record, now)
    }
    return true
  }

  /** Restores reports and records into an empty state. The rollups include them already. */
  replay(partials: readonly ReportPartial[], records: readonly RequestRecord[], at: number): void {
    this.#replaying = true
    this.report(partials, at)
    for (const record of records) this.#note(record, at)
    this.#replaying = false
  }

  setLimits(limits: StoreLimits): void {
    this.#store?.setLimits(limits)
    this.#maxAliases = limits.maxRequests
  }

  find(id: string, now: number): RequestReport | null {
    const found = this.#store?.find(this.#aliases.get(id) ?? id, now) ?? null
    if (found === null) return null
    const { byRole, combined, note } = found
    return { id: found.id, byRole, combined, record: note?.record ?? null }
  }

  rollups(): RollupGroup[] {
    return this.#rollups.groups()
  }

  /** Removes those of the named rollups that were idle since `before`, ms since the epoch. Returns their names. */
  forget(names: readonly string[], before: number): string[] {
    return this.#rollups.forget(names, before)
  }

  /** Data that must survive an eviction, as far as it changed since the last call. */
  takeChanged(): [name: string, group: RollupGroup][] {
    return this.#rollups.takeChanged()
  }

  mark(source: string): SourceMark | null {
    return this.#sources.get(source) ?? null
  }

  /** Restores into an empty state. Returns the sources that may be dropped. */
  restore(groups: Iterable<RollupGroup>, sources: Iterable<readonly [string, SourceMark]>, now: number): string[] {
    for (const group of groups) this.#rollups.merge({ at: now, ...group })
    this.#rollups.takeChanged()
    const stale: string[] = []
    for (const [source, mark] of sources) {
      if (now - mark.at > SOURCE_LIFE_MS) stale.push(source)
      else this.#sources.set(source, mark)
    }
    return stale
  }

  #note(record: RequestRecord, now: number): void {
    if (this.#store === null) return
    const { id, requestId, receivedAt, textOnly } = record
    const values: ReportPartial['values'] = [
      ['t_request_ingress_ns', receivedAt * 1e6],
      ...(textOnly ? ([['encoder_items', 0]] as const) : []),
    ]
    this.#store.add(
      { role: 'meta', id: requestId, values, chunk: null, chunks: null, last: false, item: null, serial: null },
      now,
    )
    this.#store.note(requestId, { record, counted: false }, now)
    if (id !== requestId) this.#alias(id, requestId)
    this.#count(requestId, now)
  }

  #alias(id: string, requestId: string): void {
    this.#aliases.set(id, requestId)
    while (this.#aliases.size > this.#maxAliases) this.#aliases.delete(this.#aliases.keys().next().value!)
  }

  /** Counts a request once, when its stages and its engine are known. */
  #count(id: string, now: number): void {
    const found = this.#store!.find(id, now)
    if (found === null || found.note === null || found.note.counted || found.combined.ttft_ms === null) return
    found.note.counted = true
    if (this.#replaying) return
    const { combined, note } = found
    const stages: Record<string, number> = {}
    for (const stage of STAGES) if (combined[stage] !== null) stages[stage.replace('_time_ms', '')] = combined[stage]
    this.#rollups.stages(note.record, { ...stages, reported_ttft: combined.ttft_ms! })
  }
}
