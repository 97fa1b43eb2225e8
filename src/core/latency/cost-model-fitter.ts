import { fit, medianOf, Observations, RESTORED_SAMPLES, SHIFT, SURE, sureness, UNSURE } from './fit.ts'
import {
  type PrefillCostModel,
  blend,
  newTokens,
  attentionPairs,
  prefillSeconds,
  type PromptSize,
  scaled,
} from './cost-model.ts'

/** Sample: one prompt, or the mean of several prefilled together. */
export interface PrefillSample {
  readonly newTokens: number
  /** Query-key pairs. */
  readonly pairs: number
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
const LEAST_WEIGHT = 0.05
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
const SHORTEST_S = 1e-4
const LONGEST_S = 1e4
/** Number of consecutive samples off by the same factor and direction after which the fit is reset. */
const SHIFT_SAMPLES = 6
const SHIFT_MISSES = 5
/** Samples at which confidence is one half. */
const HALF_SURE_SAMPLES = 6

/** Fits the prefill cost model of one engine. Starts from a prior, which the first samples rescale. */
export class CostModelFitter {
  #prior: PrefillCostModel
  #costModel: PrefillCostModel
  #spread = 1
  #samples = 0
  #confidence = 0
  #sinceFit = 0
  /** Time of the last update; null: restored. */
  #lastAt: number | null = 0
  #restoredSamples = 0
  readonly #kept: PrefillSample[][] = [[], [], [], [], [], []]
  /** Last samples with log(measured / expected) at their time. */
  readonly #recent: { readonly sample: PrefillSample; readonly error: number }[] = []

  constructor(prior: PrefillCostModel) {
    this.#prior = prior
    this.#costModel = prior
  }

  get costModel(): PrefillCostModel {
    return this.#costModel
  }

  /** Returns its cost model blended with a sibling's by confidence. */
  lawBeside(sibling: PrefillCostModel, now: number): PrefillCostModel {
    this.#lastAt ??= now
    const share = sureness(Math.max(this.#samples, this.#restoredSamples), this.#lastAt, now)
    if (share >= SURE) return this.#costModel
    return share < UNSURE ? sibling : blend(this.#costModel, sibling, share)
  }

  get samples(): number {
    return this.#samples
  }

  /** 0: nothing but the prior; towards 1 with samples that agree with each other. */
  get confidence(): number {
    return this.#confidence
  }

  /** Replaces the prior, such as by a sibling's model. Samples stay. */
  setPrior(prior: PrefillCostModel): void {
    this.#prior = prior
    if (this.#samples === 0) this.#costModel = prior
  }

  /** Restores a model, which counts like recent samples until new ones arrive. */
  restore(costModel: PrefillCostModel): void {
    this.setPrior(costModel)
    this.#restoredSamples = RESTORED_SAMPLES
    this.#lastAt = null
  }

  /** Whether it has samples or a restored model. */
  get hasLearned(): boolean {
    return this.#samples + this.#restoredSamples > 0
  }

  learn(sample: PrefillSample): void {
    if (!(sample.seconds >= SHORTEST_S && sample.seconds <= LONGEST_S) || !(sample.newTokens > 0)) return
    this.#recent.push({ sample, error: Math.log(sample.seconds / secondsOf(this.#costModel, sample)) })
    if (this.#recent.length > SHIFT_SAMPLES) this.#recent.shift()
    this.#keep(sample)
    if (this.#hasShifted()) this.#restart()
    if (this.#samples <= EAGER_SAMPLES || this.#sinceFit >= LAZY_EVERY) this.#refit(sample.at)
    this.#confidence = this.#samples / (this.#samples + HALF_SURE_SAMPLES) / (1 + 2 * this.#spread)
  }

  #keep(sample: PrefillSample): void {
    const kept = this.#kept[sizeClass(sample.newTokens)]!
    if (kept.length === KEPT_PER_SIZE) kept.shift()
    kept.push(sample)
    this.#samples++
    this.#lastAt = sample.at
    this.#sinceFit++
  }

  #hasShifted(): boolean {
    let slower = 0
    let faster = 0
    for (const { error } of this.#recent) {
      if (error > SHIFT) slower++
      else if (error < -SHIFT) faster++
    }
    return Math.max(slower, faster) >= SHIFT_MISSES
  }

  /** Resets the fit to the new speed; only the ratio of the coefficients is kept. */
  #restart(): void {
    this.#prior = this.#costModel
    for (const kept of this.#kept) kept.length = 0
    this.#samples = 0
    for (const { sample } of this.#recent) this.#keep(sample)
    this.#recent.length = 0
  }

  #refit(now: number): void {
    this.#sinceFit = 0
    observed.count = 0
    for (const kept of this.#kept)
      for (let at = 0; at < kept.length; at++)
        observe(kept[at]!, weightAt(kept[at]!.at, now) * 2 ** ((at + 1 - kept.length) / HALF_LIFE_SAMPLES))
    // The prior's shape at the measured speed: a profile may be off by a factor of a hundred, its ratios hardly.
    const start = scaled(this.#prior, this.#pace())
    for (const size of PRIOR_SIZES)
      observe(
        { newTokens: newTokens(size), pairs: attentionPairs(size), seconds: prefillSeconds(start, size) },
        PRIOR_WEIGHT,
      )
    const { costModel, spread } = fit(observed, start)
    this.#costModel = costModel
    this.#spread = spread
  }

  /** Ratio of measured to prior time. */
  #pace(): number {
    let count = 0
    for (const kept of this.#kept)
      for (const sample of kept) observed.sorted[count++] = sample.seconds / secondsOf(this.#prior, sample)
    return medianOf(observed.sorted, count)
  }
}

/** Buffer for all samples and the prior, shared by all fitters. */
const observed = new Observations()

function observe(seen: Omit<PrefillSample, 'at'>, weight: number): void {
  observed.add(seen.newTokens, seen.pairs, seen.seconds, weight)
}

function secondsOf(costModel: PrefillCostModel, size: PrefillSample): number {
  return costModel.fixedS + costModel.perTokenS * size.newTokens + costModel.perPairS * size.pairs
}

function weightAt(at: number, now: number): number {
  return Math.max(LEAST_WEIGHT, 2 ** (-Math.max(0, now - at) / HALF_LIFE_MS))
}

function sizeClass(tokens: number): number {
  const found = SIZE_BOUNDS.findIndex((bound) => tokens < bound)
  return found === -1 ? SIZE_BOUNDS.length : found
}
