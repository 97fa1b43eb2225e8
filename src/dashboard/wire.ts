/** What the gateway sends, derived from what it keeps: on the wire every key is snake_case. */
import type { Decision as KeptDecision, EngineDigest, Stage, ReplicaDigest } from '../core/contract/contract.ts'
import type { RegionStatus } from '../origin/regions/client.ts'

type Snake<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : Name

export type Wire<Value> = Value extends readonly (infer Item)[]
  ? readonly Wire<Item>[]
  : Value extends object
    ? { readonly [Key in keyof Value as Snake<Key & string>]: Wire<Value[Key]> }
    : Value

export type { Stage }

/** An engine whose object is out of reach has an id, a role and `available: null`. */
export type Engine = Pick<Wire<EngineDigest>, 'id' | 'role'> &
  Partial<Omit<Wire<EngineDigest>, 'id' | 'role' | 'available'>> & { readonly available: boolean | null }

export interface Pool {
  readonly cluster: string
  readonly region: string | null
  readonly model: string
  readonly aliases: readonly string[]
  readonly policy: string
  readonly reachable: boolean
  readonly bookings: number | null
  /** Epoch milliseconds at which its object looked; absent: it is out of reach. */
  readonly at?: number
  /** What the one engine stands for: another gateway, with engines of its own. null: nothing was heard of it yet; absent: there is none. */
  readonly gateway?: Wire<RegionStatus> | null
  readonly engines: readonly Engine[]
}

/** With its candidates: `/v1/firstlight/decisions/{id}`. */
export type DecisionDetail = Wire<KeptDecision>

/** `excluded`: how many. */
export type Decision = Omit<DecisionDetail, 'candidates' | 'excluded'> & { readonly excluded: number }

/** One event of `/v1/firstlight/live`. */
export interface View {
  readonly version: string
  readonly config_version: number
  readonly started_at: number
  readonly draining: boolean
  /** Absent where there are none. */
  readonly replicas?: readonly Wire<ReplicaDigest>[]
  readonly at: number
  readonly pools: readonly Pool[]
  readonly decisions: readonly Decision[]
}
