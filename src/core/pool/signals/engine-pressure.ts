import { loadSeconds } from '../../latency/loading-costs.ts'
import { tokenSeconds } from '../../latency/decode-cost-model.ts'
import type { Prediction } from '../../latency/prediction.ts'
import type { Pressure } from '../../overload/pressure.ts'
import type { EngineRef } from '../booking-ref.ts'
import type { EngineEstimators } from '../estimators/engine-estimators.ts'
import type { ForeignEstimate } from '../estimators/foreign-load.ts'
import { ownPrefillS } from './expected-wait.ts'
import { blocksWithRequest, predictionFor } from './engine-prediction.ts'
import type { SignalReader } from './signal-reader.ts'

/**
 * Load of an engine with this request added, for admission control. Valid until the next booking. Each value is
 * computed when it is read: without an objective, admission control reads only one, and of most engines to which a
 * request might move only the own prefill.
 */
export class EnginePressure implements Pressure {
  readonly #reading: SignalReader
  readonly #engine: EngineRef
  readonly #estimators: EngineEstimators
  #ownPrefillS: number | undefined = undefined
  #activeBlocks: number | undefined = undefined

  constructor(reading: SignalReader, engine: EngineRef) {
    this.#reading = reading
    this.#engine = engine
    this.#estimators = engine.estimators
    this.#estimators.queue.settle(reading.now)
  }

  get waitMs(): number {
    return 1000 * (this.#prediction.firstTokenS - this.#prefillS)
  }

  get marginMs(): number {
    const { firstTokenS, firstTokenP90S } = this.#prediction
    return 1000 * (firstTokenP90S - firstTokenS)
  }

  get prefillMs(): number {
    return 1000 * this.#prefillS
  }

  get overdueMs(): number {
    return this.#estimators.queue.overdueMs(this.#reading.now)
  }

  get stepMs(): number {
    const { sources, admission, now } = this.#reading
    const { stepFitter, hardwareClass } = this.#estimators
    const costModel = stepFitter.blendedCostModel(hardwareClass.stepFitter, sources.blockTokens, now)
    const sequences = this.requests + this.#foreign.requests + (admission.sequences ?? 1)
    return 1000 * tokenSeconds(costModel, sequences, this.#blocks)
  }

  get prefillShare(): number {
    return this.#estimators.prefillShare.share(this.#reading.now)
  }

  get queuedMs(): number {
    return 1000 * this.#estimators.queue.seconds(this.#reading.now)
  }

  get outputTokens(): number | null {
    return this.#reading.usualOutputTokens
  }

  get memoryShare(): number {
    return this.#blocks / (this.#estimators.capacity.declared ?? Infinity)
  }

  get stepLimitMs(): number {
    return this.#estimators.stepLimit.limitMs(this.#reading.now)
  }

  get requests(): number {
    return this.#estimators.requests
  }

  get waiting(): number {
    return this.#estimators.queue.length
  }

  get samples(): number {
    return this.#estimators.prefillFitter.samples
  }

  get #prediction(): Prediction {
    return predictionFor(this.#reading, this.#engine)
  }

  get #prefillS(): number {
    return (this.#ownPrefillS ??= this.#newPrefillS())
  }

  #newPrefillS(): number {
    const { prompt, sources } = this.#reading
    const cached = prompt.cached(this.#engine)
    return ownPrefillS(this.#reading, this.#estimators, cached) + loadSeconds(cached, sources.loading)
  }

  get #foreign(): ForeignEstimate {
    return this.#reading.sources.load.foreign(this.#engine, this.#reading.now, this.#estimators)
  }

  /** KV blocks of live requests and of other sources, with this one. */
  get #blocks(): number {
    return (this.#activeBlocks ??= blocksWithRequest(this.#reading, this.#engine, this.#foreign))
  }
}
