import { tokenSeconds } from '../../latency/decode-cost-model.ts'
import { adapterSeconds, loadSeconds } from '../../latency/loading-costs.ts'
import { type Prediction, predict } from '../../latency/prediction.ts'
import type { EngineRef } from '../booking-ref.ts'
import type { ForeignEstimate } from '../estimators/foreign-load.ts'
import { stepsS } from './delay-signals.ts'
import { usedBlocks } from './decode-load.ts'
import { ownPrefillS, untilPlaceS, untilStartS } from './expected-wait.ts'
import type { SignalReader } from './signal-reader.ts'

/** Prediction for a request on one engine, as decisions have it. null: unknown. */
export interface EnginePrediction {
  readonly ttftMs: number | null
  /** Part of it until the engine has a place. */
  readonly placeWaitMs: number | null
  /** Time between two tokens. */
  readonly itlMs: number | null
  readonly cachedTokens: number | null
}

/** The prediction with what the choice between whole and split serving compares. Absent: unknown. */
export interface SplitPrediction extends EnginePrediction {
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
  const foreign = sources.load.foreign(engine, now, estimators)
  const placeWaitS = untilPlaceS(admission, estimators, foreign, now)
  return predict(
    {
      waitS: engine.spec.rttMs / 1000 + untilStartS(estimators, foreign, placeWaitS, now),
      placeWaitS,
      ownS: prefillS + loadS + adapterS,
      stepsS: stepsS(estimators, { promptTokens: admission.promptTokens, cachedTokens: cached.total, prefillS }, now),
      isBehind: !estimators.queue.isEmpty,
    },
    predictedItlS(reading, engine, foreign),
    estimators,
  )
}

/** Predicted seconds between two tokens of the engine's streams once the request decodes there. */
function predictedItlS(reading: SignalReader, engine: EngineRef, foreign: ForeignEstimate): number {
  const { sources, admission, now } = reading
  const { estimators, load } = engine
  return tokenSeconds(
    estimators.decodeCostModel(sources.blockTokens, now),
    load.requests + foreign.requests + (admission.sequences ?? 1),
    blocksWithRequest(reading, engine, foreign),
  )
}

/** KV blocks in use on an engine with those that the request adds. */
export function blocksWithRequest(reading: SignalReader, engine: EngineRef, foreign: ForeignEstimate): number {
  const { sources, prompt } = reading
  prompt.match()
  const newBlocks = sources.active.newBlocks(engine.estimators.number, prompt.shape, prompt.shares(engine))
  return usedBlocks(reading, engine.estimators, foreign) + newBlocks
}

export function enginePrediction(reading: SignalReader, engine: EngineRef): EnginePrediction {
  const { firstTokenS, placeWaitS, itlS } = predictionFor(reading, engine)
  return {
    ttftMs: 1000 * firstTokenS,
    placeWaitMs: 1000 * placeWaitS,
    itlMs: 1000 * itlS,
    cachedTokens: reading.prompt.cached(engine).total,
  }
}

export function splitPrediction(reading: SignalReader, engine: EngineRef): SplitPrediction {
  const { estimators } = engine
  const prefillS = ownPrefillS(reading, estimators, reading.prompt.cached(engine))
  return {
    ...enginePrediction(reading, engine),
    stallMs: 1000 * prefillS * Math.max(0, estimators.requests - estimators.queue.length),
    kvTransferMs: estimators.kvTransfer.expectedMs(reading.admission.promptTokens),
  }
}
