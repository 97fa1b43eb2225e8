import { adapterSeconds, loadSeconds } from '../../latency/loading-costs.ts'
import { type Prediction, predict } from '../../latency/prediction.ts'
import type { EngineRef } from '../booking-ref.ts'
import { stepsS } from './delay-signals.ts'
import { ownPrefillS, waitS } from './expected-wait.ts'
import type { SignalReader } from './signal-reader.ts'

/** Predicted first token of a request on one engine. null: unknown. */
export interface FirstTokenPrediction {
  readonly ttftMs: number | null
  readonly cachedTokens: number | null
}

/** The prediction with what the choice between whole and split serving compares. Absent: unknown. */
export interface SplitPrediction extends FirstTokenPrediction {
  /** Sum of the delays of the engine's running streams by the prefill, milliseconds. */
  readonly stallMs?: number
  /** From the end of a prefill on another engine to the first token on this one, milliseconds. */
  readonly kvTransferMs?: number
}

/** The prediction for the request on an engine. */
export function predictionFor(reading: SignalReader, engine: EngineRef): Prediction {
  return (reading.predictions[engine.slot] ??= newPrediction(reading, engine))
}

function newPrediction(reading: SignalReader, engine: EngineRef): Prediction {
  const { sources, admission, prompt, now } = reading
  const { estimators } = engine
  const cached = prompt.cached(engine)
  const prefillS = ownPrefillS(reading, estimators, cached)
  const loadS = loadSeconds(cached, sources.loading)
  const adapterS = adapterSeconds(estimators.adapters.fit(admission.adapter), sources.loading)
  const waitsS = waitS(reading, engine)
  return predict(
    {
      waitS: waitsS,
      ownS: prefillS + loadS + adapterS,
      stepsS: stepsS(estimators, { promptTokens: admission.promptTokens, cachedTokens: cached.total, prefillS }, now),
      isBehind: !estimators.queue.isEmpty,
    },
    estimators,
  )
}

export function firstTokenPrediction(reading: SignalReader, engine: EngineRef): FirstTokenPrediction {
  return {
    ttftMs: 1000 * predictionFor(reading, engine).firstTokenS,
    cachedTokens: reading.prompt.cached(engine).total,
  }
}

export function splitPrediction(reading: SignalReader, engine: EngineRef): SplitPrediction {
  const { estimators } = engine
  const prefillS = ownPrefillS(reading, estimators, reading.prompt.cached(engine))
  return {
    ...firstTokenPrediction(reading, engine),
    stallMs: 1000 * prefillS * Math.max(0, estimators.requests - estimators.queue.length),
    kvTransferMs: estimators.kvTransfer.expectedMs(reading.admission.promptTokens),
  }
}
