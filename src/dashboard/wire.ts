/** Types of the gateway's views, derived from its own types: on the wire every key is snake_case. */
import type { FleetView, PoolView } from '../api/openapi/fleet.ts'
import type { Decision as KeptDecision } from '../core/contract/decision.ts'
import type { EngineDigest, StateChange } from '../core/contract/pool-digest.ts'
import type { Stage } from '../core/contract/stages.ts'
import type { HistoryView, Figures as KeptFigures } from '../core/reports/fleet-history.ts'
import type { SnakeCase } from '../snake-case.ts'

export type { Stage, StateChange }

/** An engine whose Durable Object is unreachable has an id, a role and `available: null`. */
export type Engine = Pick<SnakeCase<EngineDigest>, 'id' | 'role'> &
  Partial<Omit<SnakeCase<EngineDigest>, 'id' | 'role' | 'available'>> & { readonly available: boolean | null }

export interface Pool extends Omit<PoolView, 'adapters' | 'engines'> {
  /** Absent from older gateways. */
  readonly adapters?: PoolView['adapters']
  readonly engines: readonly Engine[]
}

/** With candidates: `/v1/firstlight/decisions/{id}`. */
export type DecisionDetail = SnakeCase<KeptDecision>

/** `excluded`: their number. */
export type Decision = Omit<DecisionDetail, 'candidates' | 'excluded'> & { readonly excluded: number }

/** One event of `/v1/firstlight/live`. */
export interface View extends Omit<FleetView, 'pools'> {
  readonly at: number
  readonly pools: readonly Pool[]
  /** Absent from older gateways. */
  readonly traffic?: Traffic
  readonly decisions: readonly Decision[]
  /** Absent from older gateways, as are the next three. */
  readonly now?: Figures
  readonly history?: History
  /** Quantiles of the stages before the first token, over 15 minutes. */
  readonly stages?: Readonly<Record<string, { readonly p50_ms: number; readonly p95_ms: number }>>
  readonly ttft_errors?: SnakeCase<HistoryView['ttftErrors']>
}

export type Figures = SnakeCase<KeptFigures>

export type Figure = keyof Figures

/** Each figure over the last 15 minutes. */
export type History = SnakeCase<HistoryView['steps']> & {
  readonly step_ms: number
  /** Start of the first step, ms since the epoch. */
  readonly from: number
}

/** Totals since the start of the gateway. */
export interface Traffic {
  readonly output_tokens_total: number
  /** By reason: overload, limits of keys, authentication. */
  readonly rejected_total: Readonly<Record<string, number>>
}
