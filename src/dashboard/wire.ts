/** Types of the gateway's views, derived from its own types: on the wire every key is snake_case. */
import type { Decision as KeptDecision } from '../core/contract/decision.ts'
import type { EngineDigest, ReplicaDigest, StateChange } from '../core/contract/pool-digest.ts'
import type { RegionStatus } from '../core/contract/region-status.ts'
import type { Stage } from '../core/contract/stages.ts'
import type { HistoryView, Figures as KeptFigures } from '../core/reports/fleet-history.ts'

type Snake<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : Name

export type Wire<Value> = Value extends readonly (infer Item)[]
  ? readonly Wire<Item>[]
  : Value extends object
    ? { readonly [Key in keyof Value as Snake<Key & string>]: Wire<Value[Key]> }
    : Value

export type { Stage, StateChange }

/** An engine whose Durable Object is unreachable has an id, a role and `available: null`. */
export type Engine = Pick<Wire<EngineDigest>, 'id' | 'role'> &
  Partial<Omit<Wire<EngineDigest>, 'id' | 'role' | 'available'>> & { readonly available: boolean | null }

export interface Pool {
  readonly cluster: string
  readonly region: string | null
  readonly model: string
  readonly aliases: readonly string[]
  /** Absent from older gateways. */
  readonly adapters?: readonly string[]
  readonly policy: string
  /** null: no objectives. */
  readonly slo: {
    readonly ttft_ms: number | null
    readonly ttft_ms_per_1k_tokens: number | null
    readonly itl_ms: number | null
  } | null
  readonly reachable: boolean
  readonly bookings: number | null
  /** Absent: the pool has no queue. */
  readonly queue?: { readonly requests: number; readonly oldest_ms: number }
  /** Epoch milliseconds of the object's state; absent: the object is unreachable. */
  readonly at?: number
  /** The gateway that this engine represents. null: no digest yet; absent: no gateway. */
  readonly gateway?: Wire<RegionStatus> | null
  readonly engines: readonly Engine[]
}

/** With candidates: `/v1/firstlight/decisions/{id}`. */
export type DecisionDetail = Wire<KeptDecision>

/** `excluded`: their number. */
export type Decision = Omit<DecisionDetail, 'candidates' | 'excluded'> & { readonly excluded: number }

/** One event of `/v1/firstlight/live`. */
export interface View {
  readonly version: string
  readonly config_version: number
  readonly started_at: number
  readonly draining: boolean
  /** When a newer configuration was refused. Absent: none was. */
  readonly config_refused_at?: number
  /** Absent without replicas. */
  readonly replicas?: readonly Wire<ReplicaDigest>[]
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
  readonly ttft_errors?: Wire<HistoryView['ttftErrors']>
}

export type Figures = Wire<KeptFigures>

export type Figure = keyof Figures

/** Each figure over the last 15 minutes. */
export type History = Wire<HistoryView['steps']> & {
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
