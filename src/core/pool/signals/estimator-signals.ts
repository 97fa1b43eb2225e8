import type { EngineRef } from '../booking-ref.ts'
import { usedBlocks } from './decode-load.ts'
import { untilPlaceS, untilStartS } from './expected-wait.ts'
import type { SignalQuery } from './signal-sources.ts'

/** Writes what the estimators of the engines hold: queued prefills, memory, cost model. */
export function writeEstimatorSignals(query: SignalQuery, engines: readonly EngineRef[]): void {
  const { sources, admission, now } = query
  for (let at = 0; at < engines.length; at++) {
    const { signals, estimators } = engines[at]!
    const { queue } = estimators
    queue.settle(now)
    const foreign = sources.load.foreign(engines[at]!, now, estimators)
    signals.queuedPrefills = Math.max(0, queue.length + foreign.waiting - estimators.places.excess(foreign.requests))
    signals.usualQueuedPrefills = queue.usualLength(now)
    signals.queuedPrefillTokens = queue.newTokens
    signals.queuedWork = queue.work
    signals.placeWaitS = untilPlaceS(admission, estimators, foreign, now)
    signals.queuedPrefillS = untilStartS(estimators, foreign, signals.placeWaitS, now)
    signals.activeBlocks = usedBlocks(query, estimators, foreign)
    signals.capacityBlocks = estimators.capacity.declared ?? Infinity
    signals.costModel = estimators.presentCostModel(now)
    signals.confidence = estimators.prefillFitter.confidence
    signals.warmth = estimators.warmth(now)
    signals.adapterFit = estimators.adapters.fit(admission.adapter)
  }
}
