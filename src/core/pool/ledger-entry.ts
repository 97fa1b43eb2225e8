import type { LiveRequest } from '../prefix-index/active-blocks.ts'
import type { LegRole } from '../contract/legs.ts'
import type { EngineRef } from './leg.ts'
import type { Usage } from '../contract/contract.ts'
import type { EngineEstimators } from './engine-estimators.ts'
import type { BusyPeriod } from '../latency/busy-period.ts'
import type { QueuedPrefill } from './prefill-queue.ts'
import type { CachedTokens } from './signal-reader.ts'

/** What one leg of a booking occupies, and what was believed when it was booked. */
export interface LegEntry {
  readonly engine: EngineRef
  readonly estimators: EngineEstimators
  readonly part: LegRole
  /** Booked again for an edge that lives on: when it began, and what was known then, is forgotten. */
  readonly isResumed: boolean
  /** null once its blocks are free. */
  live: LiveRequest | null
  /** null: the leg prefills nothing. */
  readonly queued: QueuedPrefill | null
  readonly estimate: CacheEstimate
  /** Teaches the engine's pace when all of it have ended; null: the first token has not come. */
  busyPeriod: BusyPeriod | null
  /** Is the time of its first token not that of its prefill's end? */
  firstTokenInexact: boolean
  /** How long its engine says the prefill took; null: it says nothing. */
  prefillMs: number | null
  /** What a prefill leg's own answer counted; null: nothing, or no such leg. */
  usage: Usage | null
}

export interface CacheEstimate {
  readonly cached: CachedTokens
  /** Leading blocks by the index alone, credited or not. */
  readonly indexBlocks: number
  /** Of those, tokens held by live requests while others were still waiting for their first token. */
  readonly uncertainTokens: number
  /** The index's stamps: of that moment, and of the last use of what was found cached. */
  readonly stamp: number
  readonly usedStamp: number
  readonly ttftMs: number | null
  /** 1 when the adapter was there already. */
  readonly adapterFit: number
}

/** A booking in the routing books. */
export interface LedgerEntry {
  readonly legs: readonly LegEntry[]
  /** Answers made side by side; undefined: one. */
  readonly sequences: number | undefined
  firstTokenAt: number | null
  /** Has its output been reported? Until then it is estimated. */
  seen: boolean
  /** Live requests on the decoding engine at the first token: what its pace is judged by. */
  running: number
}

/** Its output need not be estimated from when its prefill was taken for done. */
export function endPresumed({ queued, estimators }: LegEntry): void {
  if (queued === null || queued.presumedAt === null) return
  estimators.seen(queued.presumedAt, queued.sequences)
  queued.presumedAt = null
}
