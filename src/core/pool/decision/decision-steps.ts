import type { PoolConfig } from '../../contract/pool-config.ts'
import { type LegSteps, legStepsOf } from './leg-steps.ts'
import { type ReserveSteps, reserveStepsOf } from './reserve-steps.ts'

/** Steps of a decision that depend on the configuration of the pool, composed once per configuration. */
export interface DecisionSteps {
  readonly legs: LegSteps
  readonly reserve: ReserveSteps
}

export const decisionStepsOf = (pool: PoolConfig): DecisionSteps => ({
  legs: legStepsOf(pool),
  reserve: reserveStepsOf(pool),
})
