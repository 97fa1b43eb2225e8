import type { Decision } from './decision.ts'
import type { EngineStats, PausedEngine } from './engine-signal.ts'
import type { AttemptFailure } from './outcome.ts'
import type { CapacityError, PoolCapacity } from './pool-capacity.ts'
import type { Role } from './pool-config.ts'
import type { PoolHistory } from './pool-history.ts'

/** Adapters that engines report and clients may request, of one pool, at most. */
export const maxReportedAdapters = 256

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

/** Values learned from an engine's responses. */
interface EngineLearned {
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

/**
 * Condition of an engine. `suspect`: output is overdue and nothing moves. `wedged`: and a trial of the gateway was not
 * answered. `unreachable`: no contact. `faulty`: its answers are of no worth. `saturated`: its memory is full. `slow`:
 * far behind its siblings.
 */
export type Condition = 'well' | 'suspect' | 'wedged' | 'unreachable' | 'faulty' | 'saturated' | 'slow'

/** Change of one aspect of an engine's state. */
export interface StateChange {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly aspect: 'health' | 'circuit' | 'use' | 'condition'
  /** New state of the aspect. A half-open circuit counts as open. */
  readonly to: 'healthy' | 'unhealthy' | 'closed' | 'open' | 'serving' | 'draining' | 'asleep' | 'paused' | Condition
  /** Failure of the health check or of the last attempt. Absent: none. */
  readonly reason?: string
}

/** Requests, the number of their keys and models, and the names of those with most requests, at most five. */
export interface AffectedRequests {
  readonly requests: number
  readonly keys: number
  readonly models: number
  /** Absent from older objects. */
  readonly keyNames?: readonly string[]
  /** Absent from older objects. */
  readonly modelNames?: readonly string[]
}

/** Requests without a first token that wait at an engine. */
export interface HurtRequests extends AffectedRequests {
  /** Those whose clients have left since the engine was well, at most the last hundred. Absent from older objects. */
  readonly gaveUp?: AffectedRequests
}

type CircuitState = 'closed' | 'open' | 'half_open'

/** Comparisons of an engine's answers by the semantic canary. */
interface EngineCompared {
  readonly total: number
  readonly disagreed: number
  /** Since its disagreements stand out, ms since the epoch; null: they do not. */
  readonly standsOutSince: number | null
}

export interface EngineDigest {
  readonly id: string
  /** Server of which it is a data-parallel rank. Absent: it is none. */
  readonly server?: string
  /** The server ignores the choice of a rank, so its ranks are this engine. Absent: false. */
  readonly ignoresRanks?: boolean
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
  /** Absent from older objects. */
  readonly condition?: Condition
  /** Start of the condition, ms since the epoch. Absent: `well` since the start. */
  readonly conditionSince?: number
  /** Whom its condition hurts. Absent: it is well, or the object is older. */
  readonly hurt?: HurtRequests
  /** Last changes of its state, oldest first. Absent: none, or the object is older. */
  readonly changes?: readonly StateChange[]
  /** Requests whose client left before the first token. Absent from older objects. */
  readonly abandonedTotal?: number
  /** Requests that another engine got because this one was wedged. Absent from older objects. */
  readonly rescuedTotal?: number
  /** Adapters that gateways have loaded on its server. Absent: they load none. */
  readonly residents?: {
    readonly loaded: readonly string[]
    readonly loads: number
    readonly unloads: number
    readonly failures: number
  }
  /** Adapters that it reports, at most `maxReportedAdapters`. Absent: unknown, or clients cannot request them. */
  readonly loadedAdapters?: readonly string[]
  /** Comparisons of its answers with those of others. Absent: none. */
  readonly compared?: EngineCompared
  /** Longest prompt with output, as configured or reported. Absent: unknown. */
  readonly contextTokens?: number
  readonly draining: boolean
  /** Time at which streams leave the draining engine, ms since the epoch. Absent: they do not. */
  readonly moveAt?: number
  readonly asleep: boolean
  /** The operator holds requests back. Absent: no. */
  readonly paused?: PausedEngine
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
  /** Last TTFTs, milliseconds, oldest first. Only in a `PoolSummary`. */
  readonly recentTtftMs?: readonly number[]
}

/** Digest of one pool of one cluster, which gateways cache to choose clusters. */
export interface PoolDigest {
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
  /** Capacity in terms of `slo`. Absent: the pool has none, or the object is older. */
  readonly capacity?: PoolCapacity
  /** Error of the capacity in the last hour. Absent: not known yet, or as above. */
  readonly capacityError?: CapacityError
  readonly engines: readonly EngineDigest[]
  /** Absent from older objects. */
  readonly decisions?: readonly DecisionCount[]
  /** Absent where there are none. */
  readonly replicas?: readonly ReplicaDigest[]
  /** The server that carries their bookings is connected. Absent where none is configured. */
  readonly replicasUp?: boolean
}

/** Digest for the dashboard, with the last TTFTs of each engine and the last decisions. */
export interface PoolSummary {
  readonly digest: PoolDigest
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

/** Number of decisions of one kind since the object started. Every label is of a closed list. */
export interface DecisionCount {
  /** Policy; '' if refused. */
  readonly policy: string
  /** Policy that could not be used; '': none. */
  readonly fallback: string
  /** Whether it was a retry. */
  readonly retry: boolean
  /** Kind of the placement; '' if refused. */
  readonly placement: string
  /** Reason of the refusal; '' if placed. */
  readonly refused: string
  readonly count: number
  /** Whether the shadow policy chose the same; '': no shadow. Absent from older objects, as is the next. */
  readonly shadow?: '' | 'agrees' | 'differs'
  /** Sum of the predicted gains of the shadow policy, seconds; negative: losses. */
  readonly shadowGainS?: number
  /** Circuits were ignored (panic mode). Absent: they were respected, or the object is older. */
  readonly panic?: boolean
}
