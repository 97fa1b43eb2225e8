import { loadSeconds } from '../../latency/loading-costs.ts'
import { tokenSeconds } from '../../latency/decode-cost-model.ts'
import type { Pressure } from '../../overload/pressure.ts'
import type { EngineRef } from '../booking-ref.ts'
import { unparsedBlocks, ownPrefillS } from './expected-wait.ts'
import { predictionFor } from './first-token-prediction.ts'
import type { SignalReader } from './signal-reader.ts'

/** Load of an engine with this request added, for admission control. */
export function pressureOf(reading: SignalReader, engine: EngineRef): Pressure {
  const { sources, admission, now, prompt } = reading
  const { active, blockTokens } = sources
  const estimators = sources.estimators(engine)
  const newBlocks = active.newBlocks(estimators.number, prompt.shape, prompt.shares(engine))
  const blocks = active.active(estimators.number) + unparsedBlocks(reading, estimators) + newBlocks
  const cached = prompt.cached(engine)
  const requests = estimators.requests + (admission.sequences ?? 1)
  estimators.queue.settle(now)
  const prefillS = ownPrefillS(reading, estimators, cached) + loadSeconds(cached, sources.loading)
  const { firstTokenS, firstTokenP90S } = predictionFor(reading, engine)
  return {
    waitMs: 1000 * (firstTokenS - prefillS),
    marginMs: 1000 * (firstTokenP90S - firstTokenS),
    prefillMs: 1000 * prefillS,
    overdueMs: estimators.queue.overdueMs(now),
    stepMs:
      1000 * tokenSeconds(estimators.step.blendedCostModel(estimators.kind.step, blockTokens, now), requests, blocks),
    prefillShare: estimators.prefillShare.share(now),
    queuedMs: 1000 * estimators.queue.seconds(now),
    outputTokens: sources.output.tokens,
    memoryShare: blocks / (estimators.capacity.declared ?? Infinity),
    stepLimitMs: estimators.stepLimit.limitMs(now),
    requests: estimators.requests,
    waiting: estimators.queue.length,
    samples: estimators.learner.samples,
  }
}
