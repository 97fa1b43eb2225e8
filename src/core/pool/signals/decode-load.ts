/** Load of an engine by the streams that it decodes, and the time between their tokens. */
import { tokenSeconds } from '../../latency/decode-cost-model.ts'
import type { EngineRef } from '../booking-ref.ts'
import type { EngineEstimators } from '../estimators/engine-estimators.ts'
import type { ForeignEstimate } from '../estimators/foreign-load.ts'
import { presentItlS } from '../estimators/present-itl.ts'
import type { SignalQuery } from './signal-sources.ts'

/** KV blocks in use on an engine: of its live requests, of their unparsed output, and of other sources. */
export function usedBlocks(
  { sources, now }: Pick<SignalQuery, 'sources' | 'now'>,
  estimators: EngineEstimators,
  foreign: ForeignEstimate,
): number {
  const { active, blockTokens } = sources
  const unparsed = estimators.hasUnparsed
    ? estimators.unparsedBlocks(now, blockTokens, presentItlS(estimators, sources, now))
    : 0
  return active.active(estimators.number) + unparsed + foreign.blocks
}

/** Writes the time between tokens with the request, and what it adds to it. Reads the engine's other signals. */
export function fillItls({ sources, admission, now }: SignalQuery, { signals, estimators }: EngineRef): void {
  const { requests, foreignRequests, activeBlocks, newActiveBlocks } = signals
  const { sequences = 1 } = admission
  const costModel = estimators.decodeCostModel(sources.blockTokens, now)
  signals.itlS = tokenSeconds(costModel, requests + foreignRequests + sequences, activeBlocks + newActiveBlocks)
  signals.addedItlS = costModel.perRequestS * sequences + costModel.perBlockS * newActiveBlocks
}
