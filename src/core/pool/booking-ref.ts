/** Bookings and engines as the ledger and the load statistics see them. */
import type { Admission } from '../contract/admission.ts'
import { type EarlyLegRole, endsAtFirstToken, type LegRole } from '../contract/legs.ts'
import type { Usage } from '../contract/outcome.ts'
import type { EngineSpec } from '../contract/pool-config.ts'
import type { StageTimes } from '../contract/stages.ts'
import type { EngineEstimators } from './estimators/engine-estimators.ts'
import type { EngineLoad } from './engine-load.ts'
import type { EngineSignals } from './signals/engine-signals.ts'

/**
 * Engine as the ledger and the load statistics see it. `slot` is a small number, reused after the engine was removed.
 */
export interface EngineRef {
  readonly slot: number
  /** Replaced by a new configuration: read it at each use, do not store it. */
  readonly spec: EngineSpec
  /** Row into which signals are written for the policies. */
  readonly signals: EngineSignals
  readonly load: EngineLoad
  readonly estimators: EngineEstimators
}

/** Engine of a booking with the role it has. */
export interface Leg {
  readonly engine: EngineRef
  readonly legRole: LegRole
}

/** End of all legs of one role before the first token. */
export interface LegDone {
  readonly legRole: EarlyLegRole
  readonly stages: StageTimes
  /** Token counts that a prefill leg's engine reported. */
  readonly usage?: Usage | null
}

/** What a booking books. */
export interface BookedLegs {
  readonly admission: Admission
  readonly legs: readonly Leg[]
}

/** Booking as the load statistics see it. */
export interface BookingRef extends BookedLegs {
  readonly bookedAt: number
  readonly firstTokenSeen: boolean
  /** Roles whose legs ended before the first token. */
  readonly legsDone: readonly EarlyLegRole[]
}

/** Whether the legs of the role ended at the first token, or before it. */
export function hasLegEnded({ firstTokenSeen, legsDone }: BookingRef, legRole: LegRole): boolean {
  return endsAtFirstToken(legRole) && (firstTokenSeen || legsDone.includes(legRole))
}
