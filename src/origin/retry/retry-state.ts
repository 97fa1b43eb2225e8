/** State of one request over its attempts. */
import type { RefusalReason } from '../../core/contract/refusal.ts'
import { alone, type AttemptContext, type ProbeSoon } from '../attempt-context.ts'
import type { Exchange } from '../exchange.ts'
import type { FailedAttempts } from './failed-attempts.ts'
import type { AcquiredPlacement } from '../placement/acquired-placement.ts'
import type { PlacementContext } from '../placement/place-step.ts'
import type { PoolRoute } from '../pool-route.ts'
import type { PoolSteps } from '../pool-steps.ts'

export interface RetryState extends PlacementContext {
  readonly probeSoon: ProbeSoon | undefined
  readonly stepsOf: (route: PoolRoute) => PoolSteps
  readonly maxAttempts: number
  readonly maxFinalLegs: number
  readonly failed: FailedAttempts
  /** Why the pools refused another attempt; null: they did not. */
  refusalReason: RefusalReason | null
}

export const attemptOf = (
  exchange: Exchange,
  { ports, digests, probeSoon, stepsOf, stages, failed }: RetryState,
  placed: AcquiredPlacement,
): AttemptContext => ({
  exchange,
  ports,
  placed,
  stages,
  earlier: [...failed.all],
  digests,
  probeSoon,
  signal: exchange.signal,
  race: alone,
  stepsOf,
})
