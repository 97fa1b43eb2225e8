import type { EngineStats } from '../../contract/engine-signal.ts'
import type { EngineSpec } from '../../contract/pool-config.ts'
import type { KvEventCursor } from '../../kv-events/event-cursor.ts'
import { PrefillFitter } from '../../latency/prefill-fitter.ts'
import { type PrefillCostModel, scaled } from '../../latency/prefill-cost-model.ts'
import type { DecodeCostModel } from '../../latency/decode-cost-model.ts'
import { DecodeFitter } from '../../latency/decode-fitter.ts'
import { LatePrefills, type MeasuredPrefill } from '../../latency/late-prefills.ts'
import { ErrorSpread } from '../../latency/error-spread.ts'
import { KvTransferModel } from '../../latency/kv-transfer.ts'
import { PredictionChoice } from '../../latency/prediction-choice.ts'
import { UsualDelay } from '../../latency/usual-delay.ts'
import { PrefillShare } from '../../overload/prefill-share.ts'
import { StepLimit } from '../../overload/step-limit.ts'
import { CacheCapacity } from './cache-capacity.ts'
import { CacheFeedback } from './cache-feedback.ts'
import type { HardwareClass } from './hardware-class.ts'
import { LoadedAdapters } from './loaded-adapters.ts'
import { SequencePlaces } from './sequence-places.ts'
import { type Prefill, PrefillQueue, type QueuedPrefill } from './prefill-queue.ts'

/** Weight of the latest prefill in the usual one. */
const USUAL_SHARE = 0.1

/** Warm-up time of a new or restarted engine, milliseconds: CUDA graphs, caches, clocks. */
const WARM_AFTER_MS = 30_000

/** Samples from which a pace counts as learned. */
const LEARNED_SAMPLES = 3

const ERROR_DECAY = 0.05

/**
 * Interval at which cost models are blended again, milliseconds. Confidence decays within seconds, and a blend costs
 * as much as the prices of a dozen engines.
 */
const TICK_MS = 100

/** Maximum estimated output tokens of a response that is not parsed. */
const MAX_UNPARSED_TOKENS = 4096

/** Estimators of one engine: everything learned except its blocks. */
export class EngineEstimators {
  /** Its number in the prefix index. */
  readonly number: number
  hardwareClass: HardwareClass
  readonly queue = new PrefillQueue(
    (sample) => this.prefillFitter.learn(sample),
    (at, { sequences }) => this.addUnparsed(at, sequences),
  )
  readonly prefillFitter: PrefillFitter
  readonly decodeFitter = new DecodeFitter()
  /** Duration of its decode steps, without the delays by prefills. */
  readonly stepFitter = new DecodeFitter()
  readonly prefillShare = new PrefillShare()
  readonly predictionChoice = new PredictionChoice()
  readonly stepDelay = new UsualDelay()
  readonly spread = new ErrorSpread()
  readonly cacheFeedback = new CacheFeedback()
  readonly capacity = new CacheCapacity()
  readonly adapters = new LoadedAdapters()
  readonly late = new LatePrefills()
  readonly places = new SequencePlaces()
  readonly kvTransfer = new KvTransferModel()
  /** Limit of its decode step under overload. */
  readonly stepLimit = new StepLimit()
  /** Cursor of its KV events. null: no bridge has sent any. */
  feed: KvEventCursor | null = null
  /** Block size of the engine in tokens; it reuses whole blocks only. 1: unknown. */
  engineBlockTokens = 1
  /** Live requests. */
  requests = 0
  /** Moving mean of the gateway's own prefills, seconds. */
  usualPrefillS = 0
  #warmSince: number
  /** Stamp of the index at its last recovery. */
  revivedStamp = 0
  // Every decision reads the models of all engines, and blends change slowly.
  #costModel: PrefillCostModel
  /** The same without `late`. */
  #usualCostModel: PrefillCostModel
  #costModelTick = NaN
  #costModelSamples = 0
  #sibling: PrefillCostModel | null = null
  #decodeCostModel: DecodeCostModel | null = null
  #decodeCostModelTick = NaN
  #reportsCaching: boolean | null = null
  /** Reported capacity in blocks of the pool's size; null: unknown. */
  #reportedBlocks: number | null = null
  /** Decayed mean of |actual - predicted| / actual TTFT; null: none seen. */
  #ttftError: number | null = null
  // Output of streams that are not parsed is estimated: their number and the sum of their first-token times give the
  // total.
  #unparsed = 0
  #unparsedSince = 0

  constructor(
    number: number,
    {
      hardwareClass,
      prior,
      warmSince,
    }: { readonly hardwareClass: HardwareClass; readonly prior: PrefillCostModel; readonly warmSince: number },
  ) {
    this.number = number
    this.hardwareClass = hardwareClass
    this.prefillFitter = new PrefillFitter(prior)
    this.#warmSince = warmSince
    this.#costModel = prior
    this.#usualCostModel = prior
  }

  /**
   * Returns the prefill cost model, blended with the profile's by confidence. Cached for a moment, except after new
   * samples.
   */
  costModel(now: number): PrefillCostModel {
    const tick = Math.floor(now / TICK_MS)
    const { surest } = this.hardwareClass
    const sibling = surest === null || surest === this ? null : surest.prefillFitter.costModel
    if (
      this.#costModelTick !== tick ||
      this.#sibling !== sibling ||
      this.#costModelSamples !== this.prefillFitter.samples
    ) {
      this.#usualCostModel =
        sibling === null ? this.prefillFitter.costModel : this.prefillFitter.blendedCostModel(sibling, tick * TICK_MS)
      this.#costModel = scaled(this.#usualCostModel, this.late.times(this.#usualCostModel, now))
      this.#costModelTick = tick
      this.#sibling = sibling
      this.#costModelSamples = this.prefillFitter.samples
    }
    return this.#costModel
  }

  /**
   * Cost model by which a decision counts. While the speed is unknown, a prompt that has taken longer than assumed
   * shows it before its first token does.
   */
  presentCostModel(now: number): PrefillCostModel {
    return scaled(this.costModel(now), this.timesSoFar(now))
  }

  /** How many times slower than assumed a new engine has been at its present prompt. */
  timesSoFar(now: number): number {
    return this.prefillFitter.isNew ? this.queue.timesSoFar(now) : 1
  }

  /** Learns from a first token of a new engine. */
  learnEarly(prefill: MeasuredPrefill): void {
    if (!this.prefillFitter.isNew) return
    if (this.prefillFitter.samples === 0) this.prefillFitter.setPrior(this.costModel(prefill.at))
    this.prefillFitter.learnEarly({ ...prefill.size, seconds: prefill.seconds, at: prefill.at })
    this.hardwareClass.learned(this)
  }

  /** Learned cost model of the engine alone, as its last first tokens show it. */
  ownCostModel(now: number): PrefillCostModel {
    const { costModel } = this.prefillFitter
    return scaled(costModel, this.late.times(costModel, now))
  }

  /** Records a prefill that did not wait for others, when its first token came. */
  measuredPrefill(prefill: MeasuredPrefill): void {
    const { samples, longestTokens } = this.prefillFitter
    if (samples < LEARNED_SAMPLES || prefill.size.newTokens > longestTokens) return
    this.costModel(prefill.at)
    this.late.observe(prefill, this.#usualCostModel)
    this.#costModelTick = NaN
  }

  /** The engine is as fast as before. */
  recovered(): void {
    this.late.forget()
    this.#costModelTick = NaN
  }

  /** Returns the decode cost model, cached for a moment. */
  decodeCostModel(blockTokens: number, now: number): DecodeCostModel {
    const tick = Math.floor(now / TICK_MS)
    if (this.#decodeCostModel === null || this.#decodeCostModelTick !== tick) {
      this.#decodeCostModel = this.decodeFitter.blendedCostModel(
        this.hardwareClass.decodeFitter,
        blockTokens,
        tick * TICK_MS,
      )
      this.#decodeCostModelTick = tick
    }
    return this.#decodeCostModel
  }

  /** Books a prefill. */
  queuePrefill(prefill: Prefill, now: number): QueuedPrefill {
    this.prefillShare.add(prefill.seconds, now)
    this.usualPrefillS += USUAL_SHARE * (prefill.seconds - this.usualPrefillS)
    return this.queue.add(prefill, now)
  }

  /** Seconds of prefill work that were done since the start. */
  prefilledS(now: number): number {
    return this.prefillShare.totalS - this.queue.seconds(now)
  }

  observed(stats: EngineStats, poolBlockTokens: number, spec: EngineSpec): void {
    this.#reportsCaching = stats.prefixCaching ?? this.#reportsCaching
    const blockTokens = stats.blockTokens !== null && stats.blockTokens > 0 ? stats.blockTokens : null
    if (stats.cacheBlocks !== null)
      this.#reportedBlocks = stats.cacheBlocks * ((blockTokens ?? poolBlockTokens) / poolBlockTokens)
    this.capacity.declare(spec.cacheBlocks ?? this.#reportedBlocks)
    this.engineBlockTokens = blockTokens ?? this.engineBlockTokens
    if (stats.adapters !== null) this.adapters.observed(stats.adapters)
  }

  /**
   * Applies a new configuration. Learned values stay, even with another profile.
   * @param factor ratio of the old block size to the new one
   */
  described(
    spec: EngineSpec,
    {
      hardwareClass,
      prior,
      factor,
    }: { readonly hardwareClass: HardwareClass; readonly prior: PrefillCostModel; readonly factor: number },
  ): void {
    if (this.#reportedBlocks !== null) this.#reportedBlocks *= factor
    this.capacity.rescale(factor)
    this.capacity.declare(spec.cacheBlocks ?? this.#reportedBlocks)
    if (hardwareClass === this.hardwareClass) return
    this.hardwareClass.forgotten(this)
    this.hardwareClass = hardwareClass
    this.prefillFitter.setPrior(prior)
    hardwareClass.learned(this)
    this.#costModelTick = NaN
    this.#decodeCostModelTick = NaN
  }

  /** Whether the engine caches prefixes. `auto`: as reported, and yes until then. */
  caches(spec: EngineSpec): boolean {
    return spec.prefixCaching === 'auto' ? this.#reportsCaching !== false : spec.prefixCaching === 'on'
  }

  /** Returns the tokens in whole blocks of the engine. */
  wholeBlocks(tokens: number): number {
    return tokens - (tokens % this.engineBlockTokens)
  }

  restarted(now: number): void {
    this.#warmSince = now
    this.places.restarted()
    this.recovered()
  }

  /**
   * Records the recovery of the engine.
   * @param stamp current stamp of the index
   */
  revived(stamp: number): void {
    this.revivedStamp = stamp
    this.cacheFeedback.revived()
  }

  wasAwayAfter(stamp: number): boolean {
    return ((stamp - this.revivedStamp) | 0) <= 0
  }

  warmth(now: number): number {
    return Math.min(1, Math.max(0, (now - this.#warmSince) / WARM_AFTER_MS))
  }

  get hasUnparsed(): boolean {
    return this.#unparsed > 0
  }

  /** @param sequences responses that have started */
  addUnparsed(firstTokenAt: number, sequences = 1): void {
    this.#unparsed += sequences
    this.#unparsedSince += sequences * firstTokenAt
  }

  removeUnparsed(firstTokenAt: number, sequences = 1): void {
    this.addUnparsed(firstTokenAt, -sequences)
  }

  /** Estimated output blocks of streams that are not parsed. */
  unparsedBlocks(now: number, blockTokens: number, tokenS: number): number {
    if (this.#unparsed === 0) return 0
    const tokens = Math.max(0, this.#unparsed * now - this.#unparsedSince) / 1000 / tokenS
    return Math.min(tokens, this.#unparsed * MAX_UNPARSED_TOKENS) / blockTokens
  }

  get ttftError(): number | null {
    return this.#ttftError
  }

  judgeTtft(predictedMs: number, actualMs: number): void {
    if (!(actualMs > 0)) return
    const error = Math.min(10, Math.abs(actualMs - predictedMs) / actualMs)
    this.#ttftError = this.#ttftError === null ? error : this.#ttftError + ERROR_DECAY * (error - this.#ttftError)
  }
}
