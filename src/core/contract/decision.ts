import type { TokenSource } from './admission.ts'
import type { Result } from './outcome.ts'
import type { Placement } from './placement.ts'
import type { RefusalReason } from './refusal.ts'
import type { StageTimes } from './stages.ts'

/** Why an engine cannot be chosen. */
export type ExclusionReason =
  | 'unhealthy'
  | 'circuit_open'
  /** Its output is overdue, nothing moves, and a trial was not answered. */
  | 'wedged'
  /** It is many times slower than its siblings, and another engine can serve the request. */
  | 'slow'
  /** Its answers stand out from those of others. */
  | 'quarantined'
  | 'draining'
  /** The operator holds requests back. */
  | 'paused'
  | 'asleep'
  | 'role'
  | 'model'
  /** Prompt and output limit exceed its context, and another engine has a larger one. */
  | 'context'
  | 'full'
  | 'avoided'
  /** An engine of a provider, while others can serve the request. */
  | 'reserve'
  | 'signal_missing'

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
  /** A second engine beside that of an earlier attempt, which was late or may be wedged. Absent: it is not. */
  readonly hedge?: boolean
  /** Session that the client names. Absent or undefined: none. */
  readonly session?: string | undefined
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
  /** Part of it until the engine has a place (`max_num_seqs`). Absent from older objects, as is the next. */
  readonly predictedPlaceWaitMs?: number | null
  /** Time between two tokens of the response. */
  readonly predictedItlMs?: number | null
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

/** Choice of the shadow policy. */
interface ShadowChoice {
  readonly policy: string
  readonly engine: string
  readonly predictedTtftMs: number | null
  /** Whether it chose the same. Absent from older objects, as is the next. */
  readonly agrees?: boolean
  /** Predicted gain in TTFT, milliseconds; negative: loss. null: split, or unknown. */
  readonly predictedGainMs?: number | null
}
