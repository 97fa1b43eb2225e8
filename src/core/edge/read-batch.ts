import { isJsonObject } from '../json.ts'
import { SYNC_VERSION, type SyncBatch } from './sync.ts'

/** Fills in what an isolate of an older version does not send. Throws an Error for a batch without identity. */
export function readBatch(given: unknown): SyncBatch {
  if (!isJsonObject(given) || typeof given['isolate'] !== 'string' || !Number.isFinite(given['n']))
    throw new Error('A sync batch needs `isolate`, a string, and `n`, a number.')
  const { isolate, n, startedAt, configVersion, totals, regions, decisions, requests } = given as Partial<SyncBatch>
  return {
    version: SYNC_VERSION,
    isolate: isolate!,
    n: n!,
    startedAt: startedAt ?? Infinity,
    configVersion: configVersion ?? 0,
    totals: totals ?? null,
    regions: (regions ?? []).map((report) => ({
      ...report,
      circuit: report.circuit ?? { state: 'closed', leftMs: 0, openings: 0 },
      changes: report.changes ?? 0,
      recent: report.recent ?? 0,
    })),
    decisions: decisions ?? [],
    requests: requests ?? [],
  }
}
