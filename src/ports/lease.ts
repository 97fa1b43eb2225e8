import type { EarlyLegRole } from '../core/contract/legs.ts'
import type { Outcome, Usage } from '../core/contract/outcome.ts'
import type { Renewal } from '../core/contract/renewal.ts'
import type { StageTimes } from '../core/contract/stages.ts'

/** One booking. Every path ends in `release`; a lease without `renew` expires. */
export interface Lease {
  /**
   * Calls other than `renew` never reject, and take effect in their order without an await between them. Absent: the
   * caller awaits each.
   */
  readonly keepsOrder?: boolean
  /** Ends the early legs of a role: their engines are free. */
  legDone(legRole: EarlyLegRole, stages: StageTimes, usage?: Usage | null): Promise<void>
  /** Ends the prefill: its work leaves the queue. */
  firstToken(stages: StageTimes): Promise<void>
  /** Reports the output so far, in blocks. Observed requests only, at block boundaries. */
  progress(outputBlocks: number): Promise<void>
  /** Extends the lease. Rejects if the object does not have the booking: `resume` it. Nothing: the answer may go on. */
  renew(): Promise<Renewal | void>
  /** Ends the booking. Has effect once. */
  release(outcome: Outcome): Promise<void>
}
