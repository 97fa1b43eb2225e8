/** Work of an engine before and for a request: the wait behind other prompts, and the own prefill. */
import type { Admission } from '../../contract/admission.ts'
import { prefillSeconds } from '../../latency/prefill-cost-model.ts'
import type { CachedTokens } from './cached-tokens.ts'
import type { EngineEstimators } from '../estimators/engine-estimators.ts'
import type { ForeignEstimate } from '../estimators/foreign-load.ts'
import type { SignalQuery } from './signal-sources.ts'

/** Seconds until the engine has a place for all sequences of the request. */
export function untilPlaceS(
  { sequences = 1 }: Pick<Admission, 'sequences'>,
  { places }: EngineEstimators,
  foreign: ForeignEstimate,
  now: number,
): number {
  return places.waitS(sequences + foreign.requests, now)
}

/** Seconds until the engine, once it is reached, starts the prompt: queued prefills or the wait for a place. */
export const untilStartS = (
  estimators: EngineEstimators,
  foreign: ForeignEstimate,
  placeWaitS: number,
  now: number,
): number => Math.max(queuedS(estimators, foreign, now), placeWaitS)

/** Seconds of queued prefills, with those of other sources. */
function queuedS(estimators: EngineEstimators, foreign: ForeignEstimate, now: number): number {
  const { queue, usualPrefillS } = estimators
  // Beside other sources, a late first token shows a prefill of theirs before it: half of one remains on average.
  const minS = queue.isEmpty ? 0 : Math.min(1, foreign.requests) * (usualPrefillS / 2)
  return Math.max(minS, queue.seconds(now, estimators.timesSoFar(now))) + foreign.queuedS
}

/** Seconds to compute the prompt beyond the cached tokens. */
export function ownPrefillS(
  { admission, now }: SignalQuery,
  estimators: EngineEstimators,
  cached: CachedTokens,
): number {
  const size = { promptTokens: admission.promptTokens, cachedTokens: cached.total }
  return prefillSeconds(estimators.presentCostModel(now), size)
}
