import type { LiveRequest } from '../prefix-index/active-blocks.ts'
import type { LegRole, EarlyLegRole } from '../contract/legs.ts'
import type { Usage, Admission, EngineSpec, StageTimes } from '../contract/contract.ts'
import type { EngineEstimators } from './engine-estimators.ts'
import type { BusyPeriod } from '../latency/busy-period.ts'
import type { QueuedPrefill } from './prefill-queue.ts'
import type { CachedTokens, EngineSignals } from './signal-reader.ts'

/**
 * Engine as the ledger and the load statistics see it. `slot` is a small number, reused after the engine was removed.
 */
export interface EngineRef {
  readonly slot: number
  /** Replaced by a new configuration: read it at each use, do not store it. */
  readonly spec: EngineSpec
  /** Row into which signals are written for the policies. */
  readonly signals: EngineSignals
}

/** Engine of a booking with the role it has. */
export interface Leg {
  readonly engine: EngineRef
  readonly part: LegRole
}

/** End of all legs of one role before the first token. */
export interface LegDone {
  readonly part: EarlyLegRole
  readonly stages: StageTimes
  /** Token counts that a prefill leg's engine reported. */
  readonly usage?: Usage | null
}

/** Booking as the ledger and the load statistics see it. `key` is unique among live bookings. */
export interface BookingRef {
  readonly key: string
  readonly admission: Admission
  readonly legs: readonly Leg[]
}

/** Predicted times of a first token, without a transfer. */
export interface PrefillForecast {
  /** Queued work and the own prefill one after the other, milliseconds. */
  readonly workMs: number
  /** The same in the engine's steps, milliseconds. */
  readonly inStepsMs: number
  /** The better one, without the usual delay of prompts that wait behind others, milliseconds. */
  readonly baseMs: number
}

/** Predicted first token of a request on one engine. null: unknown. */
export interface Forecast {
  readonly ttftMs: number | null
  readonly prefill?: PrefillForecast
  readonly cachedTokens: number | null
  /** Sum of the delays of the engine's running streams by the prefill, milliseconds. */
  readonly stallMs?: number
  /** From the end of a prefill on another engine to the first token on this one, milliseconds. */
  readonly handOverMs?: number
}

/** Ledger entry of one leg: what it occupies and what was estimated at booking. */
export interface LegEntry {
  readonly engine: EngineRef
  readonly estimators: EngineEstimators
  readonly part: LegRole
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

export interface CacheEstimate {
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
  readonly prefill: PrefillForecast | null
  /** Whether other prompts were queued. */
  readonly behindOthers: boolean
  /** Adapter affinity at booking, see `adapterFit`. */
  readonly adapterFit: number
}

/** Ledger entry of a booking. */
export interface LedgerEntry {
  readonly legs: readonly LegEntry[]
  /** Parallel responses (`n`); undefined: one. */
  readonly sequences: number | undefined
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
  estimators.seen(queued.presumedAt, queued.sequences)
  queued.presumedAt = null
}
