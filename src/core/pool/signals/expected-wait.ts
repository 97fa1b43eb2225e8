/** Work of an engine before and for a request: the wait behind other prompts, and the own prefill. */
import { prefillSeconds } from '../../latency/prefill-cost-model.ts'
import type { EngineRef } from '../booking-ref.ts'
import type { CachedTokens } from './cached-tokens.ts'
import type { EngineEstimators } from '../estimators/engine-estimators.ts'
import { presentStepS } from '../estimators/step-time.ts'
import type { ForeignEstimate } from '../estimators/foreign-load.ts'
import type { SignalQuery } from './signal-sources.ts'

/** Seconds before a prefill could start, with the round trip. */
export function waitS({ sources, admission, now }: SignalQuery, engine: EngineRef): number {
  const { estimators } = engine
  const foreign = sources.load.foreign(engine, now, estimators)
  const placeS = estimators.places.waitS((admission.sequences ?? 1) + foreign.requests, now)
  return engine.spec.rttMs / 1000 + Math.max(queuedS(estimators, foreign, now), placeS)
}

/** Seconds of queued prefills, with those of other sources. */
export function queuedS(estimators: EngineEstimators, foreign: ForeignEstimate, now: number): number {
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

/** Blocks of running sequences whose output the gateway does not parse. */
export function unparsedBlocks(
  { sources, now }: Pick<SignalQuery, 'sources' | 'now'>,
  estimators: EngineEstimators,
): number {
  if (!estimators.hasUnparsed) return 0
  return estimators.unparsedBlocks(now, sources.blockTokens, presentStepS(estimators, sources, now))
}
