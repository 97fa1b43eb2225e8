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
      /** Longest prompt with output, tokens. Absent: unknown. */
      readonly contextTokens?: number
      /** Adapters that it has loaded. Absent: unknown. */
      readonly adapters?: readonly string[]
      /** Ranks of the server in ascending order, whose sum is `stats`. Absent: the engine is no server with ranks. */
      readonly ranks?: readonly RankStats[]
    }
  /** `moveAt`, ms since the epoch: streams that still run then are continued at other engines. Absent: they run on. */
  | { readonly kind: 'drain'; readonly engine: string; readonly draining: boolean; readonly moveAt?: number }
  /** The operator holds requests for the engine back, or lets them in again (null). `isCold`: its cache is empty. */
  | { readonly kind: 'pause'; readonly engine: string; readonly paused: PausedEngine }
  | { readonly kind: 'pause'; readonly engine: string; readonly paused: null; readonly isCold: boolean }
  /** Answers of the engine may not go on: its weights have changed. Gateways learn it when they renew a booking. */
  | { readonly kind: 'fence'; readonly engine: string }
  /** A gateway has loaded an adapter on the server, or could not. */
  | { readonly kind: 'adapter'; readonly engine: string; readonly adapter: string; readonly loaded: boolean }
  /**
   * The failure of this booking (`bookingKey`) is the request's fault, since several engines failed it. `doubtful`: no
   * other engine could be asked.
   */
  | { readonly kind: 'excused'; readonly engine: string; readonly booking: string; readonly doubtful?: boolean }
  /**
   * Result of a one-token request of the gateway itself. `unclear`: the engine answered that it does not serve such
   * requests.
   */
  | {
      readonly kind: 'trial'
      readonly engine: string
      readonly sentAt: number
      readonly result: 'passed' | 'failed' | 'unclear'
    }
  /** Two engines answered one prompt of the semantic canary. */
  | { readonly kind: 'compared'; readonly engine: string; readonly other: string; readonly agree: boolean }

/** State of an engine at an operator's pause. */
export interface PausedEngine {
  /** Requests may wait inside the engine. */
  readonly keeps: boolean
  /** Version of its weights; null: unknown. */
  readonly weights: string | null
}

/** Metrics of one data-parallel rank. */
export interface RankStats {
  /** Number of the rank in the metrics. */
  readonly rank: number
  readonly stats: EngineStats
  /** Requests completed since the start; null: not reported. */
  readonly completed: number | null
}

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
  /** What it has done so far. Absent: not reported. */
  readonly work?: ReportedTotals
}

/** Sums of counters of tokens and steps since the start of the engine. */
interface ReportedTotals {
  readonly total: number
  /** Those that grow with every step that has output; null: they grow later, such as at the end of a request. */
  readonly live: number | null
  /** Those of prompt tokens, if they grow during a prefill; null: they grow later. */
  readonly prefill: number | null
}
