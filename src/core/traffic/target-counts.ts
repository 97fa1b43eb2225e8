import type { RequestRecord } from '../reports/request-record.ts'

/** Counters of the requests that one target of a weighted model got, since the start. Those of gateways add up. */
export interface TargetCounts {
  readonly requests: number
  /** Requests that were refused before an engine, with a status below 500. */
  readonly refused: number
  /** Requests that failed at their engines, broke off, or found no engine. */
  readonly failed: number
  /** Sum of the times to first token, ms, and their number. */
  readonly ttftMs: number
  readonly firstTokens: number
  /** Complete streams, their output tokens, and the time from the first of them to the end, ms. */
  readonly streams: number
  readonly outputTokens: number
  readonly decodeMs: number
}

/** By the name of the weighted model, then by target. */
export type CountsByTarget = Readonly<Record<string, Readonly<Record<string, TargetCounts>>>>

export const NO_TARGET_COUNTS: TargetCounts = {
  requests: 0,
  refused: 0,
  failed: 0,
  ttftMs: 0,
  firstTokens: 0,
  streams: 0,
  outputTokens: 0,
  decodeMs: 0,
}

export type EndedRequest = Pick<RequestRecord, 'engine' | 'status' | 'result' | 'stages' | 'durationMs' | 'stream'>

/** Failed at its engines, or found none. A client that leaves or sends nonsense says nothing about the target. */
export const hasFailed = ({ status, result }: Pick<EndedRequest, 'status' | 'result'>): boolean =>
  result === 'engine_failed' || result === 'abandoned' || (status >= 500 && result !== 'client_gone')

/** Counts of all with one more request of a target. `outputTokens`: null if unknown. */
export const withTargetRequest = (
  all: CountsByTarget,
  [name, target]: readonly [name: string, target: string],
  record: EndedRequest,
  outputTokens: number | null,
): CountsByTarget => {
  const of = all[name] ?? {}
  return { ...all, [name]: { ...of, [target]: withRequest(of[target] ?? NO_TARGET_COUNTS, record, outputTokens) } }
}

/** Counts with one more request. `outputTokens`: null if unknown. @testing */
export function withRequest(counts: TargetCounts, record: EndedRequest, outputTokens: number | null): TargetCounts {
  const { engine, stages, durationMs, stream } = record
  const ttftMs = stages.ttft ?? null
  const isFailure = hasFailed(record)
  const isComplete =
    stream && record.result === 'complete' && ttftMs !== null && outputTokens !== null && outputTokens > 0
  return {
    requests: counts.requests + 1,
    refused: counts.refused + (engine === null && !isFailure ? 1 : 0),
    failed: counts.failed + (isFailure ? 1 : 0),
    ttftMs: counts.ttftMs + (ttftMs ?? 0),
    firstTokens: counts.firstTokens + (ttftMs === null ? 0 : 1),
    streams: counts.streams + (isComplete ? 1 : 0),
    outputTokens: counts.outputTokens + (isComplete ? outputTokens : 0),
    decodeMs: counts.decodeMs + (isComplete ? Math.max(0, durationMs - ttftMs) : 0),
  }
}
