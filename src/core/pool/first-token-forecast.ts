import { newTokens } from '../latency/prefill-cost-model.ts'
import { prefillWork } from '../latency/prefill-work.ts'
import type { EngineRef } from './booking-ref.ts'
import { type CachedTokens, loadSeconds } from './cached-tokens.ts'
import type { EngineEstimators } from './engine-estimators.ts'
import { ownPrefillS, waitS } from './expected-wait.ts'
import type { SignalReader } from './signal-reader.ts'
import type { SignalQuery } from './signal-sources.ts'

/** Predicted times of a first token, without a transfer. */
export interface PrefillForecast {
  /** Queued work and the own prefill one after the other, milliseconds. */
  readonly workMs: number
  /** Both in the engine's steps, milliseconds. */
  readonly inStepsMs: number
  /** The better one, without the usual delay of prompts that wait behind others, milliseconds. */
  readonly baseMs: number
}

/** Predicted first token of a request on one engine. null: unknown. */
export interface Forecast {
  readonly ttftMs: number | null
  readonly prefill?: PrefillForecast
  readonly cachedTokens: number | null
  /** Sum of the delays of the engine's running streams by the prefill, milliseconds. */
  readonly stallMs?: number
  /** From the end of a prefill on another engine to the first token on this one, milliseconds. */
  readonly kvTransferMs?: number
}

/** Predicts the first token of a request on an engine, from the queue, the cost model and the cached tokens. */
export function forecastOf(reading: SignalReader, engine: EngineRef): Forecast {
  const { sources, admission, prompt } = reading
  const estimators = sources.estimators(engine)
  const cached = prompt.cached(engine)
  const prefillS = ownPrefillS(reading, estimators, cached)
  const workS = waitS(reading, engine) + prefillS + loadSeconds(cached)
  const inStepsS = workS + stepsS(reading, estimators, { cached, prefillS })
  const baseS = estimators.prediction.choose(workS, inStepsS)
  return {
    ttftMs: 1000 * (baseS + usualDelayS(estimators, baseS)),
    prefill: { workMs: 1000 * workS, inStepsMs: 1000 * inStepsS, baseMs: 1000 * baseS },
    stallMs: 1000 * prefillS * Math.max(0, estimators.requests - estimators.queue.length),
    cachedTokens: cached.total,
    kvTransferMs: estimators.kvTransfer.expectedMs(admission.promptTokens),
  }
}

interface OwnPrefill {
  readonly cached: CachedTokens
  readonly prefillS: number
}

/** Time that the engine's steps add to the wait and the own prefill. Nothing if it is idle. */
function stepsS(
  { admission: { promptTokens }, now }: SignalQuery,
  { requests, queue }: EngineEstimators,
  { cached, prefillS }: OwnPrefill,
): number {
  if (requests === 0) return 0
  const size = { promptTokens, cachedTokens: cached.total }
  const work = prefillWork(promptTokens, cached.total)
  return queue.delaySeconds({ newTokens: newTokens(size), work, seconds: prefillS }, now)
}

/** Usual delay of first tokens beyond the prediction, for prompts that wait behind others. */
function usualDelayS({ queue, stepDelay }: EngineEstimators, predictedS: number): number {
  return queue.isEmpty ? 0 : stepDelay.seconds(predictedS)
}
