import type { CapacityError } from '../../../../src/core/contract/pool-capacity.ts'
import type { AutoscaledResult } from './autoscaled-replay.ts'

/** Interval of `replicas_by_minute`. */
const MINUTE_MS = 60_000

/** Figures of one rule, as in the JSON. */
export interface AutoscaleRow {
  readonly rule: string
  /** Share of all requests that were answered within the objective. */
  readonly slo_kept: number
  readonly refused: number
  readonly engine_hours: number
  /** Engine hours relative to the offline optimum that keeps as many requests as the capacity rule. */
  readonly hours_vs_optimum: number
  readonly replicas_mean: number
  readonly replicas_max: number
  /** Replicas that serve at the start of each minute. */
  readonly replicas_by_minute: readonly number[]
  /** Error of the published capacity in the last hour of the trace. null: without `slo`, or not known. */
  readonly capacity_error: CapacityError | null
}

export function autoscaleRow(rule: string, result: AutoscaledResult, optimumHours: number): AutoscaleRow {
  const { keptShare, refusedShare, engineHours, spanMs, changes, capacityError } = result
  const minutes = Array.from({ length: Math.ceil(spanMs / MINUTE_MS) }, (_, minute) => {
    const last = changes.findLast(({ atMs }) => atMs <= minute * MINUTE_MS)
    return last?.ready ?? 0
  })
  return {
    rule,
    slo_kept: keptShare,
    refused: refusedShare,
    engine_hours: engineHours,
    hours_vs_optimum: engineHours / optimumHours,
    replicas_mean: engineHours / (spanMs / 3_600_000),
    replicas_max: Math.max(...changes.map(({ ready, starting, draining }) => ready + starting + draining)),
    replicas_by_minute: minutes,
    capacity_error: capacityError,
  }
}
