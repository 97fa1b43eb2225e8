import type { ReportPartial } from '../core/reports/report-partial.ts'
import type { AddedReport } from '../core/reports/report-store.ts'
import type { RecordBatch } from '../core/reports/request-record.ts'
import type { CountedGroup, RollupGroup } from '../core/reports/rollups.ts'
import type { RequestReport } from '../core/reports/ttft-state.ts'

/**
 * TTFT reports and rollups, sharded by request: Durable Objects on Workers, memory on Node. Requests never wait for it.
 */
export interface Ttft {
  /** Time that records may wait for others before they are flushed. */
  readonly batchMs: number
  /** Merges partial reports; one result each, in order. No results while reports are off. */
  report(partials: readonly ReportPartial[]): Promise<readonly AddedReport[]>
  /** Finds a report by the client's label, the gateway's id, or an id that an engine derived from one. */
  find(id: string): Promise<RequestReport | null>
  /** Adds records of the gateway. Safe to repeat: a (source, epoch, seq) counts once. */
  flush(batch: RecordBatch): Promise<void>
  /** Durations and counts of all records so far. */
  rollups(): Promise<readonly RollupGroup[]>
  /** Groups of all shards, one per engine, counted up to each of the ascending `limitsMs`. Absent: merge `rollups`. */
  counted?(limitsMs: readonly number[]): Promise<readonly CountedGroup[]>
  /** Deletes those of the named rollups (`groupName`) without a record since `before`, ms since the epoch. */
  forget(names: readonly string[], before: number): Promise<void>
}
