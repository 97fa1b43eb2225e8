import { fit, medianOf, Observations } from './robust-fit.ts'
import {
  RESTORED_SAMPLES,
  SHIFT_LOG_FACTOR,
  FULL_CONFIDENCE,
  sampleConfidence,
  type SampleTimes,
  NO_CONFIDENCE,
} from './sample-confidence.ts'
import {
  type PrefillCostModel,
  blend,
  newTokens,
  attentionPairs,
  prefillSeconds,
  type PrefillSize,
  type PromptSize,
  scaled,
  costModelSeconds,
} from './prefill-cost-model.ts'

/** Sample: one prompt, or the mean of several prefilled together. */
interface PrefillSample extends PrefillSize {
  /** Prefill time without queueing, seconds. */
  readonly seconds: number
  /** Milliseconds. */
  readonly at: number
}

/** Samples are stored by size, so that many small prompts do not displace long ones. */
const SIZE_BOUNDS = [128, 512, 2048, 8192, 32_768] as const
const KEPT_PER_SIZE = 32
/** Half-life of samples, milliseconds: an engine may change, but old samples keep some weight. */
const HALF_LIFE_MS = 600_000
const MIN_WEIGHT = 0.05
/**
 * Half-life in later samples of the same size: the first samples, before the warm-up, must not stay for ten minutes.
 */
const HALF_LIFE_SAMPLES = 8
/** Number of samples up to which each causes a fit; later every eighth does. */
const EAGER_SAMPLES = 32
const LAZY_EVERY = 8
/** Weight of the prior in samples at each size: small, but it decides where there are none. */
const PRIOR_WEIGHT = 0.1
const PRIOR_SIZES: readonly PromptSize[] = [
  { promptTokens: 256, cachedTokens: 0 },
  { promptTokens: 2048, cachedTokens: 0 },
  { promptTokens: 16_384, cachedTokens: 0 },
  { promptTokens: 16_384, cachedTokens: 16_000 },
]
/** Valid range of prefill times, seconds: others are clock errors. */
const MIN_SECONDS = 1e-4
const MAX_SECONDS = 1e4
/** Number of consecutive samples off by the same factor and direction after which the fit is reset. */
const SHIFT_SAMPLES = 6
const SHIFT_MISSES = 5
/**
 * Number of consecutive samples after a reset that must fit the earlier model, and not the present one, to restore it:
 * the change was a temporary disturbance.
 */
const RETURN_SAMPLES = 3
/** Maximum log error of a sample that fits the earlier model, and its maximum share of the present model's error. */
const RETURN_ERROR = Math.log(1.4)
const RETURN_SHARE = 0.5
/**
 * Factor by which a proportional change must fit better than a delay to be assumed, plus squared log error of noise.
 * Samples of one size fit both; a delay is the safe assumption, because it does not change the price of new tokens.
 */
const DELAY_LOSS_RATIO = 2
const DELAY_LOSS = 0.02
/** Maximum squared log error per sample, so that outliers do not decide. */
const MAX_LOSS = 1
/** Samples at which confidence is one half. */
const HALF_CONFIDENCE_SAMPLES = 6
/** Number of samples up to which an engine is new. */
const NEW_SAMPLES = 3

/** Fit before a reset. */
interface EarlierFit {
  readonly costModel: PrefillCostModel
  readonly prior: PrefillCostModel
  readonly isPriorFitted: boolean
  readonly kept: readonly (readonly PrefillSample[])[]
  readonly samples: number
}

/**
 * Fits the prefill cost model of one engine. Starts from a prior, which the first samples rescale. After a change of
 * speed the fit is reset; if the samples allow it, the change is taken as a delay, and the earlier fit is restored
 * when samples agree with it again.
 */
export class PrefillFitter {
  #prior: PrefillCostModel
  /** Whether the prior is this engine's own earlier fit. */
  #isPriorFitted = false
  /** Null: never reset, or restored. */
  #earlier: EarlierFit | null = null
  /** Number of latest samples that fit `#earlier` and not the present model. */
  #returning = 0
  #costModel: PrefillCostModel
  #spread = 1
  #sampleCount = 0
  #confidence = 0
  #sinceFit = 0
  /** Times since the last sample that was off; null: none yet, or restored. */
  #times: SampleTimes | null = null
  #restoredSamples = 0
  #longestTokens = 0
  /** Samples of responses that have not ended, in order. */
  readonly #early: PrefillSample[] = []
  readonly #samplesBySize: PrefillSample[][] = [[], [], [], [], [], []]
  /** Last samples with log(measured / expected) at their time. */
  readonly #recent: { readonly sample: PrefillSample; readonly error: number }[] = []

  constructor(prior: PrefillCostModel) {
    this.#prior = prior
    this.#costModel = prior
  }

  get costModel(): PrefillCostModel {
    return this.#earlier === null || this.#returning === 0
      ? this.#costModel
      : blend(this.#earlier.costModel, this.#costModel, this.#returning / RETURN_SAMPLES)
  }

  /** Returns its cost model blended with a sibling's by confidence. */
  blendedCostModel(sibling: PrefillCostModel, now: number): PrefillCostModel {
    this.#times ??= { firstAt: now, lastAt: now }
    const share = sampleConfidence(Math.max(this.#sampleCount, this.#restoredSamples), this.#times, now)
    if (share >= FULL_CONFIDENCE) return this.costModel
    return share < NO_CONFIDENCE ? sibling : blend(this.costModel, sibling, share)
  }

  get samples(): number {
    return this.#sampleCount
  }

  /** Whether it has too few samples to know the speed, and none was restored. */
  get isNew(): boolean {
    return Math.max(this.#sampleCount, this.#restoredSamples) < NEW_SAMPLES
  }

  /** Longest prompt with a sample, with its cached tokens. Longer ones are extrapolated. */
  get longestTokens(): number {
    return this.#longestTokens
  }

  /** 0: nothing but the prior; towards 1 with samples that agree with each other. */
  get confidence(): number {
    return this.#confidence
  }

  /** Replaces the prior, such as by a sibling's model. Samples stay. */
  setPrior(prior: PrefillCostModel): void {
    this.#prior = prior
    this.#isPriorFitted = false
    if (this.#sampleCount === 0) this.#costModel = prior
  }

  /** Restores a model, which counts like recent samples until new ones arrive. */
  restore(costModel: PrefillCostModel): void {
    this.setPrior(costModel)
    this.#restoredSamples = RESTORED_SAMPLES
    this.#times = null
  }

  /** Whether it has samples or a restored model. */
  get hasLearned(): boolean {
    return this.#sampleCount + this.#restoredSamples > 0
  }

  /**
   * Learns the speed of a new engine from a first token. What its response reports at the end replaces the sample:
   * until then the cached part of the prompt is an assumption.
   */
  learnEarly(sample: PrefillSample): void {
    if (!this.isNew || !isPlausible(sample)) return
    this.#early.push(sample)
    this.#store(sample)
    this.#refit(sample.at)
    this.#confidence = this.#confidenceNow()
  }

  learn(sample: PrefillSample): void {
    if (!isPlausible(sample)) return
    this.#dropEarly()
    const error = Math.log(sample.seconds / costModelSeconds(this.#costModel, sample))
    if (Math.abs(error) > SHIFT_LOG_FACTOR) this.#times = null
    this.#recent.push({ sample, error })
    if (this.#recent.length > SHIFT_SAMPLES) this.#recent.shift()
    this.#store(sample)
    if (this.#hasReturned(sample)) this.#revert(sample.at)
    else if (this.#hasShifted()) this.#restart(sample.at)
    if (this.#sampleCount <= EAGER_SAMPLES || this.#sinceFit >= LAZY_EVERY) this.#refit(sample.at)
    this.#confidence = this.#confidenceNow()
  }

  #confidenceNow(): number {
    return this.#sampleCount / (this.#sampleCount + HALF_CONFIDENCE_SAMPLES) / (1 + 2 * this.#spread)
  }

  /** Drops the earliest sample of a first token. */
  #dropEarly(): void {
    const early = this.#early.shift()
    if (early === undefined) return
    const kept = this.#samplesBySize[sizeClass(early.newTokens)]!
    const at = kept.indexOf(early)
    if (at < 0) return
    kept.splice(at, 1)
    this.#sampleCount -= 1
  }

  #store(sample: PrefillSample): void {
    const kept = this.#samplesBySize[sizeClass(sample.newTokens)]!
    if (kept.length === KEPT_PER_SIZE) kept.shift()
    kept.push(sample)
    this.#sampleCount++
    this.#longestTokens = Math.max(this.#longestTokens, sample.pairs / sample.newTokens + sample.newTokens / 2)
    this.#times = { firstAt: this.#times?.firstAt ?? sample.at, lastAt: sample.at }
    this.#sinceFit++
  }

  #hasShifted(): boolean {
    let slower = 0
    let faster = 0
    for (const { error } of this.#recent) {
      if (error > SHIFT_LOG_FACTOR) slower++
      else if (error < -SHIFT_LOG_FACTOR) faster++
    }
    return Math.max(slower, faster) >= SHIFT_MISSES
  }

  /** Whether the latest samples fit the earlier model and not the present one. */
  #hasReturned(sample: PrefillSample): boolean {
    if (this.#earlier === null) return false
    const present = Math.abs(Math.log(sample.seconds / costModelSeconds(this.#costModel, sample)))
    const earlier = Math.abs(Math.log(sample.seconds / costModelSeconds(this.#earlier.costModel, sample)))
    // A sample that fits both models proves nothing.
    if (earlier <= RETURN_ERROR && earlier < RETURN_SHARE * present) this.#returning += 1
    else if (earlier > RETURN_ERROR) this.#returning = 0
    return this.#returning >= RETURN_SAMPLES
  }

  /** Restores the earlier fit with the samples that agree with it. */
  #revert(now: number): void {
    const { costModel, prior, isPriorFitted, kept, samples } = this.#earlier!
    const since = this.#recent.slice(-RETURN_SAMPLES)
    this.#earlier = null
    this.#returning = 0
    this.#costModel = costModel
    this.#prior = prior
    this.#isPriorFitted = isPriorFitted
    for (let at = 0; at < kept.length; at++) this.#samplesBySize[at] = [...kept[at]!]
    this.#sampleCount = samples
    for (const { sample } of since) this.#store(sample)
    this.#recent.length = 0
    this.#refit(now)
  }

  /** Resets the fit to the new speed. The earlier fit, without the samples of the new speed, is remembered. */
  #restart(now: number): void {
    const since = new Set(this.#recent.map(({ sample }) => sample))
    for (let at = 0; at < this.#samplesBySize.length; at++)
      this.#samplesBySize[at] = this.#samplesBySize[at]!.filter((sample) => !since.has(sample))
    const samples = this.#sampleCount - since.size
    if (samples > 0) {
      this.#refit(now)
      this.#earlier = {
        costModel: this.#costModel,
        prior: this.#prior,
        isPriorFitted: this.#isPriorFitted,
        kept: this.#samplesBySize.slice(),
        samples,
      }
    }
    this.#returning = 0
    this.#prior = this.#costModel
    this.#isPriorFitted = samples > 0 || this.#isPriorFitted
    for (let at = 0; at < this.#samplesBySize.length; at++) this.#samplesBySize[at] = []
    this.#sampleCount = 0
    for (const { sample } of this.#recent) this.#store(sample)
    this.#recent.length = 0
  }

  #refit(now: number): void {
    this.#sinceFit = 0
    observed.count = 0
    for (const kept of this.#samplesBySize)
      for (let at = 0; at < kept.length; at++)
        observe(kept[at]!, weightAt(kept[at]!.at, now) * 2 ** ((at + 1 - kept.length) / HALF_LIFE_SAMPLES))
    const start = this.#start()
    for (const size of PRIOR_SIZES)
      observe(
        { newTokens: newTokens(size), pairs: attentionPairs(size), seconds: prefillSeconds(start, size) },
        PRIOR_WEIGHT,
      )
    const { costModel, spread } = fit(observed, start)
    this.#costModel = costModel
    this.#spread = spread
  }

  /**
   * The prior's shape at the measured speed: a profile may be off by a factor of a hundred, its ratios hardly. An own
   * fit is not: it is the prior with a delay, unless the samples contradict.
   */
  #start(): PrefillCostModel {
    const prior = this.#prior
    const rescaled = scaled(
      prior,
      this.#medianOf((sample) => sample.seconds / costModelSeconds(prior, sample)),
    )
    if (!this.#isPriorFitted) return rescaled
    const delayS = this.#medianOf((sample) => sample.seconds - costModelSeconds(prior, sample))
    const { fixedS, perTokenS, perPairS } = prior
    const delayed = { fixedS: Math.max(0, fixedS + delayS), perTokenS, perPairS }
    return this.#lossOf(delayed) <= DELAY_LOSS_RATIO * this.#lossOf(rescaled) + DELAY_LOSS ? delayed : rescaled
  }

  #medianOf(valueOf: (sample: PrefillSample) => number): number {
    let count = 0
    for (const kept of this.#samplesBySize) for (const sample of kept) observed.sorted[count++] = valueOf(sample)
    return medianOf(observed.sorted, count)
  }

  /** Mean squared log error, limited per sample. */
  #lossOf(costModel: PrefillCostModel): number {
    let loss = 0
    let count = 0
    for (const kept of this.#samplesBySize)
      for (const sample of kept) {
        loss += Math.min(MAX_LOSS, Math.log(sample.seconds / Math.max(1e-9, costModelSeconds(costModel, sample))) ** 2)
        count += 1
      }
    return count === 0 ? 0 : loss / count
  }
}

/** Buffer for all samples and the prior, shared by all fitters. */
const observed = new Observations()

function observe(sample: Omit<PrefillSample, 'at'>, weight: number): void {
  observed.add(sample.newTokens, sample.pairs, sample.seconds, weight)
}

function isPlausible(sample: PrefillSample): boolean {
  return sample.seconds >= MIN_SECONDS && sample.seconds <= MAX_SECONDS && sample.newTokens > 0
}

function weightAt(at: number, now: number): number {
  return Math.max(MIN_WEIGHT, 2 ** (-Math.max(0, now - at) / HALF_LIFE_MS))
}

function sizeClass(tokens: number): number {
  const found = SIZE_BOUNDS.findIndex((bound) => tokens < bound)
  return found === -1 ? SIZE_BOUNDS.length : found
}
