import type { Admission, EngineSpec, StageTimes, Usage } from '../contract/contract.ts'
import type { EarlyLegRole, LegRole } from '../contract/legs.ts'
import type { EngineSignals } from './engine-signals.ts'

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

/** Predicted first token of a request on one engine. null: unknown. */
export interface Forecast {
  readonly ttftMs: number | null
  readonly cachedTokens: number | null
  /** Sum of the delays of the engine's running streams by the prefill, milliseconds. */
  readonly stallMs?: number
  /** From the end of a prefill on another engine to the first token on this one, milliseconds. */
  readonly handOverMs?: number
}
