import { tokenSeconds } from '../../latency/decode-cost-model.ts'
import type { ActiveBlocks } from '../../prefix-index/active-blocks.ts'
import type { EngineEstimators } from './engine-estimators.ts'

/** What the time between tokens of an engine is computed from. */
export interface ItlSources {
  readonly active: ActiveBlocks
  readonly blockTokens: number
}

/** Seconds between two tokens of the streams that run on an engine, with their usual delays by prefills. */
export function presentItlS(estimators: EngineEstimators, { active, blockTokens }: ItlSources, now: number): number {
  const costModel = estimators.decodeCostModel(blockTokens, now)
  return tokenSeconds(costModel, estimators.requests, active.active(estimators.number))
}
