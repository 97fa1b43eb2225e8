import { adapterSeconds, loadSeconds } from '../../latency/loading-costs.ts'
import { newTokens, prefillSeconds } from '../../latency/prefill-cost-model.ts'
import { baseSeconds, laterSeconds } from '../../latency/prediction.ts'
import { prefillWork } from '../../latency/prefill-work.ts'
import type { EngineRef } from '../booking-ref.ts'
import type { EngineEstimators } from '../estimators/engine-estimators.ts'
import { NO_SLOW_TOKENS } from './engine-signals.ts'
import type { SignalQuery } from './signal-sources.ts'

interface OwnPrefill {
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly prefillS: number
}

/** Time that the engine's steps add to the wait and the own prefill. Nothing while it is idle or new and late. */
export function stepsS(estimators: EngineEstimators, own: OwnPrefill, now: number): number {
  const { requests, queue } = estimators
  if (requests === 0 || estimators.timesSoFar(now) > 1) return 0
  const { promptTokens, cachedTokens, prefillS: seconds } = own
  return queue.delaySeconds({ newTokens: newTokens(own), work: prefillWork(promptTokens, cachedTokens), seconds }, now)
}

/** Writes what the predicted first token has beyond the work before it. Reads the engine's other signals. */
export function fillDelays({ sources, admission: { promptTokens }, now }: SignalQuery, engine: EngineRef): void {
  const { signals, estimators } = engine
  signals.delayS = 0
  signals.laterS = 0
  if (estimators.requests === 0 && estimators.queue.isEmpty) return
  const { rttS, queuedPrefillS, cachedTokens, costModel, slowTokens, adapterFit } = signals
  const prefillS = prefillSeconds(costModel, { promptTokens, cachedTokens })
  const work = {
    waitS: rttS + queuedPrefillS,
    ownS:
      prefillS +
      (slowTokens === NO_SLOW_TOKENS ? 0 : loadSeconds(slowTokens, sources.loading)) +
      (adapterFit > 0 ? 0 : adapterSeconds(adapterFit, sources.loading)),
    stepsS: stepsS(estimators, { promptTokens, cachedTokens, prefillS }, now),
    isBehind: !estimators.queue.isEmpty,
  }
  const baseS = baseSeconds(work, estimators)
  signals.delayS = baseS - work.waitS - work.ownS
  if (work.isBehind) signals.laterS = laterSeconds(baseS, work, estimators)
}
