import type { DecisionCount } from '../pool/decisions.ts'
import type { EarlyLegRole } from './legs.ts'
import type { ShadowChoice } from '../routing/policy.ts'
import type { PoolHistory } from '../reports/history.ts'

/** Another gateway in front of the same engines. */
export interface ReplicaDigest {
  /** Name of its machine or pod. */
  readonly host: string
  /** Unique for each start of the process. */
  readonly id: string
  /** `away`: its bookings are not received now. */
  readonly state: 'following' | 'away'
  /** Its live bookings, of all pools. */
  readonly bookings: number
}

/**
 * Durations of the stages a request went through before its first token, milliseconds. Absent: not gone through or
 * unknown.
 */
export type StageTimes = Readonly<Partial<Record<Stage, number>>>

export type Stage =
  | 'edge'
  | 'tokens'
  | 'route'
  | 'lookup'
  | 'admit'
  | 'gateway_queue'
  | 'connect'
  | 'encode'
  | 'prefill_leg'
  | 'transfer'
  | 'queue'
  | 'prefill'
  | 'first_byte'
  | 'ttft'

/** Why an engine cannot be chosen. */
export type ExclusionReason =
  | 'unhealthy'
  | 'circuit_open'
  | 'draining'
  | 'asleep'
  | 'role'
  | 'model'
  | 'full'
  | 'avoided'
  /** An engine of a provider, while others can serve the request. */
  | 'reserve'
  | 'signal_missing'

/** Why no engine could be chosen. */
export type RefusalReason =
  | 'unconfigured'
  | 'no_engine'
  | 'engines_unavailable'
  | 'engines_full'
  | 'role_empty'
  | 'retry_budget'
  | 'overloaded'

/** Values learned from an engine's responses. */
export interface EngineLearned {
  /**
   * Prefill cost model in use (learned, of a sibling, or of the profile), seconds: fixedS + perTokenS * new + perPairS
   * * (total² - cached²)/2.
   */
  readonly costModel: { readonly fixedS: number; readonly perTokenS: number; readonly perPairS: number }
  readonly samples: number
  /** Confidence: 0 prior only, towards 1 with consistent samples. */
  readonly confidence: number
  /** Estimated capacity in prompt blocks; null: never observed to be below the reported one. */
  readonly cacheBlocks: number | null
  /** Decayed mean of |actual - predicted| / actual TTFT; null: none seen. */
  readonly ttftError: number | null
  /** Limit of the decode step under overload, ms. Absent: none. */
  readonly stepLimitMs?: number
  /** Sequences that the engine runs at the same time (`max_num_seqs`). Absent: unknown. */
  readonly places?: number
  /** Decayed means per request, tokens. */
  readonly predictedCachedTokens: number
  readonly actualCachedTokens: number
  readonly cachedTokensError: number
  /** Number of restarts detected by cache misses. */
  readonly restarts: number
  /** Hits are predicted but never reported: the likely causes; null: no problem. */
  readonly silentMiss: readonly string[] | null
  /** Warmth: 0 just joined or restarted, 1 warmed up. */
  readonly warmth: number
}

export const PAYLOAD_VERSION = 1

/** Role of an engine. `any` may do everything. */
export type Role = 'any' | 'prefill' | 'decode' | 'encode'

/** Engine as the core sees it. Addresses and secrets stay with the edge. */
export interface EngineSpec {
  readonly id: string
  readonly role: Role
  /** Model names (base or adapters) it serves; null: all of its pool. */
  readonly models: readonly string[] | null
  readonly labels: Readonly<Record<string, string>>
  /** Relative share of traffic for policies that use weights; default 1. */
  readonly weight: number
  /** Maximum concurrent requests; null: no limit. */
  readonly maxInFlight: number | null
  readonly prefixCaching: 'auto' | 'on' | 'off'
  /** Capacity in KV blocks of the pool's `blockTokens`; null: reported or learned. */
  readonly cacheBlocks: number | null
  /** Network round trip from the gateway, milliseconds. */
  readonly rttMs: number
  /** Name of a hardware profile for cold-start priors; null: the pool's or the default. */
  readonly profile: string | null
  /** LMCache instance it reads from; null or absent: not configured. */
  readonly lmcacheInstance?: string | null
  /** The engine is another gateway. Absent: it is not. */
  readonly isGateway?: boolean
  /** The engine belongs to a provider: a last resort, without probes and KV cache. Absent: it does not. */
  readonly isExternal?: boolean
}

/** Whether load and cache behind the address are unknown. */
export const isOpaque = ({ isGateway, isExternal }: Pick<EngineSpec, 'isGateway' | 'isExternal'>): boolean =>
  isGateway === true || isExternal === true

export interface PolicyConfig {
  readonly name: string
  /** Options of the policy, already validated by the config schema. */
  readonly options: Readonly<Record<string, number | string | boolean>>
}

export type SplitMode = 'always' | 'never' | 'threshold' | 'uncached' | 'adaptive'

export interface SplitConfig {
  readonly mode: SplitMode
  readonly thresholdTokens: number
  readonly fallback: 'decode_only' | 'fail'
}

/** The circuit breakers of a pool. */
export interface CircuitConfig {
  /** Consecutive failures that open a circuit. */
  readonly failures: number
  /** Time before a trial, milliseconds. */
  readonly openMs: number
  /** Maximum share of engines with open circuits, rounded up. Absent from older edges: 1. */
  readonly maxEjectedShare?: number
  /** Panic threshold: circuits are ignored while a smaller share is available. Absent from older edges: 0. */
  readonly panicShare?: number
}

/** Latency objectives of a pool, ms. null: no limit. */
export interface SloConfig {
  readonly ttftMs: number | null
  /** Added to `ttftMs` for each 1,000 prompt tokens. */
  readonly ttftMsPer1kTokens: number | null
  /** Mean time between two tokens of a response. */
  readonly itlMs: number | null
}

/** Configuration of a pool for its ClusterState. */
export interface PoolConfig {
  readonly cluster: string
  /** Base model of the pool: its name in configs, digests and metrics. */
  readonly pool: string
  readonly blockTokens: number
  readonly policy: PolicyConfig
  /** Policy that ranks the same candidates without effect. */
  readonly shadow: PolicyConfig | null
  readonly split: SplitConfig
  /** Lease of a booking, milliseconds: without renewal it expires. */
  readonly leaseMs: number
  /** Retry budget: a share of requests, plus a minimum per second so that a quiet pool can retry. */
  readonly retry: { readonly share: number; readonly minPerS: number }
  readonly circuit: CircuitConfig
  readonly statsIntervalMs: number
  /** Maximum entries of the prefix index over all engines. */
  readonly indexEntries: number
  /** Requests beyond these objectives are refused. Absent, null: none. */
  readonly slo?: SloConfig | null
  /** Most requests without a first token per engine. Absent from older edges: no limit. */
  readonly maxWaiting?: number
  /** Requests that wait for room instead of being refused. Absent, null: none. */
  readonly queue?: { readonly maxRequests: number; readonly maxWaitMs: number } | null
  readonly engines: readonly EngineSpec[]
}

/** Cached prefix found by a lookup before admission, e.g. in LMCache. */
export interface CacheHint {
  readonly engine: string
  readonly matchedTokens: number
  readonly tier: 'device' | 'host' | 'disk' | 'remote'
}

/** Options that a request may override if its key allows it. */
export interface Overrides {
  readonly policy?: string
  readonly overlapWeight?: number
  readonly temperature?: number
}

/** `sheddable` requests are refused first, `critical` ones go first in the queue. */
export type RequestClass = 'critical' | 'standard' | 'sheddable'

export type TokenSource = 'exact' | 'engine' | 'ids' | 'bytes'

export interface Admission {
  readonly version: number
  /** Id made by the gateway, never by the client. */
  readonly id: string
  /** Version of the edge's configuration. */
  readonly configVersion: number
  /** Model name as the engine knows it (an adapter's name where one was asked for). */
  readonly model: string
  /** Adapter name; null for the base model. */
  readonly adapter: string | null
  readonly promptTokens: number
  readonly tokenSource: TokenSource
  /** Chained hashes of the full blocks, two 32-bit lanes per block: [lo0, hi0, lo1, hi1, …]. */
  readonly blocks: Uint32Array
  readonly session: string | null
  /** Lower is more urgent, as in vLLM. */
  readonly priority: number
  readonly expectedOutputTokens: number | null
  /** Whether the first token is visible when it is produced. Absent: unknown. */
  readonly streams?: boolean
  readonly tenant: string
  /** Class under overload. Absent: `standard`. */
  readonly requestClass?: RequestClass
  /** Share of the key relative to others under overload. Absent: 1. */
  readonly keyWeight?: number
  /** Time that the client leaves for the first token, ms. Absent: no limit of its own. */
  readonly ttftDeadlineMs?: number
  readonly overrides: Overrides | null
  /** Lookup results; null: no lookup, or it failed; []: nothing found. */
  readonly hints: readonly CacheHint[] | null
  /**
   * For a Durable Object that is the LMCache registry: keys of the prompt's chunks, two lanes each, from which it
   * makes hints.
   */
  readonly chunks?: { readonly keys: Uint32Array; readonly tokens: number; readonly shared: boolean } | null
  /** Why the request cannot be split; null: it can. */
  readonly unsplittable: string | null
  /** Prompt length that a split's `threshold` uses; absent: `promptTokens`. */
  readonly splitTokens?: number
  /** The engine recomputes the whole prompt, because its tokens are scored. Absent: it does not. */
  readonly computesAll?: boolean
  /** Parallel responses (`n`) per prompt. Absent: one. */
  readonly sequences?: number
  /** Multimodal items to encode. */
  readonly encodeItems: number
  /** 0 for the first attempt; later ones use the retry budget. */
  readonly attempt: number
  /**
   * Earlier attempts only reached gateways that were full or unreachable, so this is no retry. Absent: it is one,
   * unless it is the first.
   */
  readonly moved?: boolean
  /**
   * Legs in which all earlier attempts failed: no engine was asked for the response. A placement without these legs is
   * no retry. Absent: an engine was asked, or there was no earlier attempt.
   */
  readonly failedLegs?: readonly EarlyLegRole[]
  /** An earlier attempt still runs, and its first byte is late. Absent: all earlier ones failed. */
  readonly hedge?: boolean
  /** Engines that already failed this request, or are at it. */
  readonly avoid: readonly string[]
  /** No other cluster is left, so an engine with an open circuit is acceptable. Absent: there may be one. */
  readonly isLastResort?: boolean
  /** Requests that the edge has refused in place of the pool since its last call. Absent: none. */
  readonly edgeRefusals?: number
}

/** Engines that serve a request; `runnersUp` are for an edge that loses its connection to the object. */
export type Placement =
  | { readonly kind: 'whole'; readonly engine: string; readonly runnersUp: readonly string[] }
  | { readonly kind: 'split'; readonly prefill: string; readonly decode: string; readonly runnersUp: readonly string[] }
  | {
      readonly kind: 'staged'
      readonly encode: readonly string[]
      readonly prefill: string | null
      readonly decode: string
      readonly runnersUp: readonly string[]
    }

/** Ranked candidate with the terms of its cost. */
export interface RankedCandidate {
  readonly engine: string
  /** Cost in the policy's unit (seconds for `predicted`, blocks for `active_blocks`); lower is better. */
  readonly cost: number
  readonly terms: Readonly<Record<string, number>>
}

export interface ExcludedEngine {
  readonly engine: string
  readonly reason: ExclusionReason
}

/** Reasons of one decision, stored for `explain`. */
export interface Decision {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly cluster: string
  readonly pool: string
  readonly model: string
  readonly attempt: number
  /** A second engine beside the one of an earlier attempt, whose first byte was late. Absent: it is not. */
  readonly hedge?: boolean
  readonly promptTokens: number
  readonly tokenSource: TokenSource
  readonly policy: string
  /** Configured policy that could not be used, with the reason; null: it was used. */
  readonly fallback: { readonly from: string; readonly reason: string } | null
  readonly placement: Placement
  /** Whether the prefill runs on another engine, and why. Absent: the pool never splits. */
  readonly split?: { readonly taken: boolean; readonly why: string }
  readonly candidates: readonly RankedCandidate[]
  readonly excluded: readonly ExcludedEngine[]
  /** Circuits were ignored, since too few engines were available. Absent: they were respected. */
  readonly panic?: boolean
  /** Engine of the policy's choice, which had no room for the request. Absent: the choice was kept. */
  readonly movedFrom?: string
  /** Time in the queue of the pool, ms. Absent: it did not wait. */
  readonly waitedMs?: number
  readonly predictedTtftMs: number | null
  readonly predictedCachedTokens: number | null
  /** Choice of the shadow policy; null: none. */
  readonly shadow: ShadowChoice | null
  /** Why a retry after this attempt was refused. Absent: not requested, or placed. */
  readonly retryRefused?: RefusalReason
  /** Filled in at the first token of a stream. Absent: none yet, or from an older object. */
  readonly firstToken?: { readonly ttftMs: number; readonly stages: StageTimes }
  /** Result, set at release. */
  readonly actual: {
    readonly ttftMs: number | null
    readonly cachedTokens: number | null
    readonly result: Result
    /** Stages before the first token. Absent from older objects. */
    readonly stages?: StageTimes
  } | null
}

export interface Refusal {
  readonly reason: RefusalReason
  /** Limit that an overloaded request exceeds. Absent for other reasons. */
  readonly limit?: 'ttft' | 'itl' | 'memory' | 'deadline' | 'waiting' | 'queue'
  /** Detail for operators, without addresses. */
  readonly detail: string
  /** The role without an engine, with its engines' labels: `role "prefill" (app=prefill)`. */
  readonly emptyRole?: string
  /** A request with `isLastResort` would be tried. Absent: it would not. */
  readonly mayPanic?: boolean
  /** The request may wait for room in the queue of the pool (`Cluster.wait`). Absent: it may not. */
  readonly mayWait?: boolean
  /** Refusals of the pool per second. Absent: so few that edges ask for each request. */
  readonly refusalsPerS?: number
  readonly retryAfterMs: number
}

export type Result = 'complete' | 'client_gone' | 'engine_failed' | 'engine_refused' | 'abandoned' | 'lapsed'

/** Why an attempt on an engine failed before or after its first byte. */
export type AttemptFailure =
  | 'connect'
  | 'connect_timeout'
  | 'reset'
  | 'malformed'
  | 'first_byte_timeout'
  /** A non-streaming response exceeded its timeout. Neither retried nor counted as an engine failure. */
  | 'answer_timeout'
  | 'idle_timeout'
  | 'status_5xx'
  | 'busy'
  /** The gateway has no descriptors or ports left. The engine is not at fault. */
  | 'gateway_limit'
  /** Routing loop: the address leads to a gateway that the request has passed. */
  | 'loop'

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Cached tokens; null: not reported. */
  readonly cachedTokens: number | null
}

/** Outcome of an attempt. `failure` is set if the engine is at fault. */
export interface Outcome {
  readonly version: number
  readonly result: Result
  readonly failure: AttemptFailure | null
  /**
   * Engine of a split or staged placement that failed, was busy or refused; absent: unknown, so no circuit is
   * affected.
   */
  readonly failedEngine?: string | null
  readonly status: number | null
  readonly usage: Usage | null
  /** Number of `data:` events, the fallback for output length without usage. 0 for native relays. */
  readonly outputEvents: number
  readonly stages: StageTimes
  /** The end of the stream was not parsed, so it may have been cut. Absent: parsed, or not a stream. */
  readonly endUnseen?: boolean
}

/** Outcome with a result and no details. */
export const endedAs = (result: Result): Outcome => ({
  version: PAYLOAD_VERSION,
  result,
  failure: null,
  status: null,
  usage: null,
  outputEvents: 0,
  stages: {},
})

/** Signal about an engine from a probe, an operator, or the end of a request. */
export type EngineSignal =
  | {
      readonly kind: 'probe'
      readonly engine: string
      readonly at: number
      /** Time at which the check was sent, ms since the epoch. Absent: unknown. */
      readonly sentAt?: number
      readonly healthy: boolean
      readonly asleep: boolean
      /** Metrics; null: the engine runs but its metrics could not be read. */
      readonly stats: EngineStats | null
      /** Why it is unhealthy: an AttemptFailure, or `status_` with the status of `/health`. Absent: it is not. */
      readonly problem?: string
      /** Version of the server. Absent: unknown. */
      readonly version?: string
    }
  /** `moveAt`, ms since the epoch: streams that still run then are continued at other engines. Absent: they run on. */
  | { readonly kind: 'drain'; readonly engine: string; readonly draining: boolean; readonly moveAt?: number }
  /**
   * The failure of this booking (`bookingKey`) is the request's fault, since several engines failed it. `doubtful`: no
   * other engine could be asked.
   */
  | { readonly kind: 'excused'; readonly engine: string; readonly booking: string; readonly doubtful?: boolean }

/** Values of the engine's `/metrics`; null: not reported. */
export interface EngineStats {
  readonly running: number
  readonly waiting: number
  /** Share of KV cache in use, 0..1. */
  readonly kvUsage: number | null
  /** Tokens per block of the engine. */
  readonly blockTokens: number | null
  readonly cacheBlocks: number | null
  readonly prefixCaching: boolean | null
  readonly adapters: { readonly running: readonly string[]; readonly max: number | null } | null
}

export type CircuitState = 'closed' | 'open' | 'probing'

export interface EngineDigest {
  readonly id: string
  readonly role: Role
  readonly weight: number
  /** Whether it may be chosen now. */
  readonly available: boolean
  readonly healthy: boolean
  /** Why the last probe failed. Absent: it did not, or the object is older. */
  readonly problem?: string
  /** Last failed attempt. Absent: none, or the object is older. */
  readonly lastFailure?: { readonly failure: AttemptFailure; readonly at: number }
  /** Version of the server. Absent: unknown. */
  readonly engineVersion?: string
  readonly draining: boolean
  /** Time at which streams leave the draining engine, ms since the epoch. Absent: they do not. */
  readonly moveAt?: number
  readonly asleep: boolean
  readonly circuit: CircuitState
  /** Requests booked and not released. */
  readonly requests: number
  readonly activeBlocks: number
  /** Prefill work of bookings without a first token, seconds. */
  readonly queuedPrefillS: number
  /** Uncached tokens of it. Absent from older objects. */
  readonly queuedPrefillTokens?: number
  /** Attention work of it, query-key pairs (production-stack#670). Absent from older objects. */
  readonly queuedPrefillWork?: number
  readonly cachedBlocks: number
  readonly cacheBlocks: number | null
  /** Decayed mean of TTFT, milliseconds; null: none yet. */
  readonly ttftMs: number | null
  readonly requestsTotal: number
  readonly failuresTotal: number
  /** Failures that did not open the circuit because of a limit of ejection. Absent from older objects. */
  readonly ejectionsWithheld?: number
  /**
   * Part of the totals that earlier incarnations wrote to a snapshot; less than they had reported. A counter that
   * treats a decrease as a reset subtracts it. Absent from older objects.
   */
  readonly countedBefore?: { readonly requests: number; readonly failures: number }
  readonly stats: (EngineStats & { readonly ageMs: number }) | null
  readonly learned?: EngineLearned
  /** State of its KV events; absent: no bridge sends them. */
  readonly kvFeed?: {
    /** `exact`: events are the only source. `partial`: the cache may hold more. `silent`: none recently. */
    readonly state: 'exact' | 'partial' | 'silent'
    /** Blocks stored and removed. */
    readonly changes: number
    /** Number of resynchronisations. */
    readonly resyncs: number
    readonly lagMs: number
  }
  /** Decayed mean share of cached prompt tokens, 0..1; null: not reported. Absent from older objects. */
  readonly hitRate?: number | null
  /** Last TTFTs, milliseconds, oldest first. Only in a glance. */
  readonly recentTtftMs?: readonly number[]
}

/** Digest of one pool of one cluster, which edges cache to choose clusters. */
export interface ClusterDigest {
  readonly version: number
  readonly cluster: string
  readonly pool: string
  readonly configVersion: number
  /** Grows with every digest of one incarnation of the object. */
  readonly seq: number
  readonly epoch: string
  readonly at: number
  readonly bookings: number
  /** Requests that wait for room, and the longest time that one has waited. Absent: the pool has no queue. */
  readonly queue?: { readonly requests: number; readonly oldestMs: number }
  readonly engines: readonly EngineDigest[]
  /** Absent from older objects. */
  readonly decisions?: readonly DecisionCount[]
  /** Absent where there are none. */
  readonly replicas?: readonly ReplicaDigest[]
  /** The server that carries their bookings is connected. Absent where none is configured. */
  readonly replicasUp?: boolean
}

/** Digest for the dashboard, with the last TTFTs of each engine and the last decisions. */
export interface ClusterSummary {
  readonly digest: ClusterDigest
  /** Newest first; `candidates` is empty, `explain` has them. */
  readonly decisions: readonly Decision[]
  /**
   * Decisions with a first token or an outcome, the latest event first: they may be older than `decisions`. Absent
   * from older objects.
   */
  readonly measured?: readonly Decision[]
  /** Absent from older objects. */
  readonly history?: PoolHistory
}

/** Request of an edge to book again, without ranking, after the object lost its memory. */
export interface Resume {
  readonly admission: Admission
  readonly placement: Placement
  readonly firstTokenSeen: boolean
  /** Legs that ended before the first token. Absent from older edges. */
  readonly legsDone?: readonly ('encode' | 'prefill')[]
  readonly outputBlocks: number
  /**
   * Set if another replica decided and counts the request: `now`, or `before` the connection. Absent: decided here and
   * lost.
   */
  readonly elsewhere?: 'now' | 'before'
}
