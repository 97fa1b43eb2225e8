import type { ReportRole, ReportStage } from './report-partial.ts'
import { childrenSeen, type ReportFacts, type Values, valuesByRole } from './report-facts.ts'

/** Stages over all roles. null: not known yet. Keys are those of the wire format. */
type CombinedStages = { readonly [Stage in ReportStage]: number | null } & {
  /** Nanoseconds since the epoch, to a quarter of a microsecond: the precision of a double beyond 2^53. */
  readonly t_request_ingress_ns: number | null
  readonly enc_ingress_wait_ms: number | null
  /** Sum of the stages, if all required ones are known. */
  readonly ttft_ms: number | null
}

export interface TtftReport {
  readonly byRole: Readonly<Record<ReportRole, Values>>
  readonly combined: CombinedStages
}

const TEXT_STAGES = ['prefill_queue_time_ms', 'prefill_compute_time_ms'] as const

/** vllm-ascend #12 marks the transfer as optional: an encoder may put the embeddings where the engine reads them. */
const MEDIA_STAGES = ['enc_queue_time_ms', 'enc_compute_time_ms', ...TEXT_STAGES] as const

/** Combines the facts of all ids of one request. Their order in time matters only for contradictions. */
export function combine(all: readonly ReportFacts[]): TtftReport {
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
      ttft_ms: isTextOnly(values, children > 0) ? totalOf(values, TEXT_STAGES) : mediaTotalOf(values),
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

function mediaTotalOf(values: Values): number | null {
  const total = totalOf(values, MEDIA_STAGES)
  return total === null ? null : total + (values.emb_cache_transfer_time_ms ?? 0)
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
