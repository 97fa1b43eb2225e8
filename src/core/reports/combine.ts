import { childrenSeen, valuesByRole, type ReportFields, type Values } from './report-fields.ts'
import { STAGES, type ReportRole, type ReportStage } from './partial.ts'
import type { AttemptFailure, Result, StageTimes, Usage } from '../contract/contract.ts'

/** Result of a request: that of its last attempt, or `refused` without one. */
export type RequestResult = Result | 'refused'

/**
 * One request, as log, metrics, spans, history and reports read it. The gateway fills it in while the request runs
 * (`OpenRecord`). Plain data: it crosses the Ttft port.
 */
export interface RequestRecord {
  /** The gateway's id. */
  readonly id: string
  /** The client's label, which engines get as their request id; without one the gateway's id. */
  readonly requestId: string
  /** Milliseconds since the epoch. */
  readonly receivedAt: number
  readonly durationMs: number
  readonly path: string
  /** Base model of the pool that served it, or the requested name. */
  readonly model: string
  /** null: no engine was found. */
  readonly cluster: string | null
  readonly engine: string | null
  /** Prefill engine of a split request. */
  readonly prefillEngine: string | null
  readonly placement: 'whole' | 'split' | 'staged' | null
  readonly policy: string | null
  /** Notes of the decision: `fallback=…`, `failover=…`. */
  readonly notes: readonly string[]
  readonly stream: boolean
  readonly status: number
  readonly result: RequestResult
  /** Failure of each earlier attempt. */
  readonly failedAttempts: readonly AttemptFailure[]
  readonly stages: StageTimes
  readonly predictedTtftMs: number | null
  readonly usage: Usage | null
  /** Results of continuing the stream: `continued`, `finished`, or a reason. Absent: it was not cut. */
  readonly continuations?: readonly string[]
  /**
   * Result of sending the request to a second engine because the first byte was late: `won`, `lost`, `failed`, or why
   * it was not sent. Absent: it was not late.
   */
  readonly hedge?: string
  /** Parallel responses, whose tokens are counted together. Absent: one. */
  readonly sequences?: number | undefined
  /** The request has nothing to encode, so no report of an encoder will come. */
  readonly textOnly: boolean
}

/** Record of a request that may still run. `result` is null until the end. */
export type OpenRecord = { -readonly [Field in keyof Omit<RequestRecord, 'result'>]: RequestRecord[Field] } & {
  result: RequestResult | null
}

export const hasEnded = (record: OpenRecord): record is OpenRecord & RequestRecord => record.result !== null

/** Creates the record of a new request. `status` is 0 until the end. */
export const openRecord = (
  request: Pick<RequestRecord, 'id' | 'requestId' | 'receivedAt' | 'path' | 'model' | 'stream'>,
): OpenRecord => ({
  ...request,
  durationMs: 0,
  cluster: null,
  engine: null,
  prefillEngine: null,
  placement: null,
  policy: null,
  notes: [],
  status: 0,
  result: null,
  failedAttempts: [],
  stages: {},
  predictedTtftMs: null,
  usage: null,
  textOnly: true,
})

/** Records of one gateway in order. Repeated batches and those of an older epoch have no effect. */
export interface RecordBatch {
  /** Id of the gateway. */
  readonly source: string
  /** Incarnation of the gateway; grows. */
  readonly epoch: number
  /** Grows by one with every batch of an incarnation to the same shard. */
  readonly seq: number
  readonly records: readonly RequestRecord[]
}

/** Stages over all roles. null: not known yet. Keys are those of the wire format. */
export type Combined = { readonly [Stage in ReportStage]: number | null } & {
  /** Nanoseconds since the epoch, to a quarter of a microsecond: the precision of a double beyond 2^53. */
  readonly t_request_ingress_ns: number | null
  readonly enc_ingress_wait_ms: number | null
  /** Sum of the required stages, if all are known. */
  readonly ttft_ms: number | null
}

export interface TtftReport {
  readonly byRole: Readonly<Record<ReportRole, Values>>
  readonly combined: Combined
}

const TEXT_STAGES = ['prefill_queue_time_ms', 'prefill_compute_time_ms'] as const

/** Combines the facts of all ids of one request. Their order in time matters only for contradictions. */
export function combine(all: readonly ReportFields[]): TtftReport {
  const byRole = valuesByRole(all)
  const { meta, encoder, pd } = byRole
  const merged: Values = { ...meta, ...encoder, ...pd }
  const children = childrenSeen(all)
  const expected = merged.encoder_items
  const values: Values = expected !== undefined && children < expected ? withoutEncoder(merged) : merged
  const stage = (name: ReportStage): number | null => values[name] ?? null
  return {
    byRole,
    combined: {
      enc_queue_time_ms: stage('enc_queue_time_ms'),
      enc_compute_time_ms: stage('enc_compute_time_ms'),
      emb_cache_transfer_time_ms: stage('emb_cache_transfer_time_ms'),
      prefill_queue_time_ms: stage('prefill_queue_time_ms'),
      prefill_compute_time_ms: stage('prefill_compute_time_ms'),
      t_request_ingress_ns: values.t_request_ingress_ns ?? null,
      enc_ingress_wait_ms: values.enc_ingress_wait_ms ?? null,
      ttft_ms: totalOf(values, isTextOnly(values, children > 0) ? TEXT_STAGES : STAGES),
    },
  }
}

/** Some encoder items are missing, so the stages are incomplete. */
function withoutEncoder({ enc_queue_time_ms: _queue, enc_compute_time_ms: _compute, ...rest }: Values): Values {
  return rest
}

/** The gateway reports the number of items. Without its record: whether nothing was encoded and nothing fetched. */
function isTextOnly(values: Values, encoded: boolean): boolean {
  if (values.encoder_items !== undefined) return values.encoder_items === 0
  return !encoded && values.emb_cache_transfer_time_ms === 0
}

function totalOf(values: Values, required: readonly ReportStage[]): number | null {
  let total = 0
  for (const stage of required) {
    const value = values[stage]
    if (value === undefined) return null
    total += value
  }
  return total
}
