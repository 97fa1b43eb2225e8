import type { ExclusionReason } from '../../contract/decision.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'

/** An engine that one request cannot be given. */
export interface Exclusion {
  readonly engine: EngineState
  readonly reason: ExclusionReason
}
