import type { BudgetCharge, BudgetUse } from '../core/budgets/budget.ts'
import type { LimitAnswer, LimitedRequest, RunningRequest, Settlement } from '../core/limits/key-limits.ts'

/** Carrier of the limits per key. Rejects if it is unreachable. */
export interface Limiter {
  /** Takes all limits of a request or none. */
  reserve(request: LimitedRequest): LimitAnswer | Promise<LimitAnswer>
  /** Ends a reserved request. Has effect once. */
  settle(settlement: Settlement): Promise<void> | void
  /** Counts a running request that was admitted while the carrier was unreachable, once it is back. */
  adopt?(request: LimitedRequest): void
  /** Adds amounts to a budget. */
  charge(charge: BudgetCharge): BudgetUse | Promise<BudgetUse>
  /** Heartbeat of a running request with a limit of `concurrent`. Absent: the carrier needs none. */
  readonly renewal?: RunningRenewal | undefined
}

interface RunningRenewal {
  readonly everyMs: number
  renew(running: RunningRequest): Promise<void>
}
