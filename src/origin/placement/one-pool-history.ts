import type { FailedOutcome } from '../attempt-context.ts'
import type { PoolRoute } from '../pool-route.ts'
import { largestContext } from '../retry/largest-context.ts'
import type { AttemptHistory } from './place-step.ts'

interface OnePoolAttempts extends Pick<AttemptHistory, 'attempt' | 'skipsRetryBudget'> {
  /** Failed attempts of the request so far, on any pool. */
  readonly failed: readonly FailedOutcome[]
  /** Engines of the pool that the request must not get. */
  readonly avoid: readonly string[]
}

/** History of a request that an engine of this pool has, and for which another one of the same pool is wanted. */
export const onePoolHistory = (
  { cluster }: PoolRoute,
  { attempt, skipsRetryBudget, failed, avoid }: OnePoolAttempts,
): AttemptHistory => ({
  attempt,
  skipsRetryBudget,
  failedLegs: null,
  avoid: new Map([[cluster.id, avoid]]),
  beyondContextTokens: largestContext(failed),
})
