import type { Admission } from '../contract/admission.ts'
import type { LegRole } from '../contract/legs.ts'
import type { Usage } from '../contract/outcome.ts'
import type { BusyPeriod } from '../latency/busy-period.ts'
import type { PromptSize } from '../latency/prefill-cost-model.ts'
import type { Prediction } from '../latency/prediction.ts'
import type { LiveRequest } from '../prefix-index/active-blocks.ts'
import type { EngineRef } from './booking-ref.ts'
import type { CachedTokens } from './signals/cached-tokens.ts'
import type { EngineEstimators } from './estimators/engine-estimators.ts'
import type { QueuedPrefill } from './estimators/prefill-queue.ts'

/** Ledger entry of one leg: what it occupies and what was estimated at booking. */
export interface LegEntry {
  readonly engine: EngineRef
  readonly estimators: EngineEstimators
  readonly legRole: LegRole
  /** Booked again after an eviction: its start and the estimates are unknown. */
  readonly isResumed: boolean
  /** null after its blocks were released. */
  live: LiveRequest | null
  /** null: the leg prefills nothing. */
  readonly queued: QueuedPrefill | null
  readonly estimate: CacheEstimate
  /** Busy period of its prefill, which yields a sample when all of it have ended; null: no first token yet. */
  busyPeriod: BusyPeriod | null
  /** Whether the first token's time differs from the prefill's end. */
  firstTokenInexact: boolean
  /** Prefill time that the engine reported, milliseconds; null: none. */
  prefillMs: number | null
  /** Token counts of a prefill leg's response; null: none. */
  usage: Usage | null
}

interface CacheEstimate {
  readonly cached: CachedTokens
  /** Leading blocks in the index, trusted or not. */
  readonly indexBlocks: number
  /** Tokens of it held by live requests before their first token. */
  readonly uncertainTokens: number
  /** Stamps of the index: at booking, and at the last use of the cached blocks. */
  readonly stamp: number
  readonly usedStamp: number
  readonly ttftMs: number | null
  /** null: it prefills nothing. */
  readonly prediction: Prediction | null
  /** Whether other prompts were queued. */
  readonly behindOthers: boolean
  /** Adapter affinity at booking, see `adapterFit`. */
  readonly adapterFit: number
}

/** Ledger entry of a booking. */
export interface LedgerEntry {
  readonly admission: Admission
  readonly legs: readonly LegEntry[]
  firstTokenAt: number | null
  /** Whether output was reported. Until then it is estimated. */
  seen: boolean
  /** State of the decode engine at the first token, for the decode fit: live requests, blocks, prefill work done. */
  running: number
  blocks: number
  prefilledS: number
  /** Last report of output, from which the time between tokens is measured; null: none. */
  reported: { readonly outputBlocks: number; readonly at: number } | null
}

/** Ends the estimate of output since the assumed end of the prefill. */
export function endPresumed({ queued, estimators }: LegEntry): void {
  if (queued === null || queued.presumedAt === null) return
  estimators.removeUnparsed(queued.presumedAt, queued.sequences)
  queued.presumedAt = null
}

interface BookedPrediction {
  readonly size: PromptSize
  /** Time to the first token, ms. */
  readonly ttftMs: number
  /** The part of it in which the engine is at this prompt, ms. */
  readonly prefillMs: number
  /** Time between tokens, seconds. */
  readonly itlS: number
}

/** Predicted first token of a booking, by its first leg. null: unknown. */
export function predictionOf({ admission: { promptTokens }, legs: [leg] }: LedgerEntry): BookedPrediction | null {
  if (leg === undefined || leg.isResumed) return null
  const { ttftMs, prediction, cached } = leg.estimate
  if (ttftMs === null || prediction === null) return null
  // What its steps add to the work before it is mostly its own, and both models of one prompt may differ widely.
  const stepsS = Math.max(0, prediction.baseS - prediction.workS)
  const prefillMs = 1000 * ((leg.queued?.seconds ?? 0) + stepsS)
  return { size: { promptTokens, cachedTokens: cached.total }, ttftMs, prefillMs, itlS: prediction.itlS }
}
