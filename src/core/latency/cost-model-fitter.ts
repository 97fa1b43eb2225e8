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

/** One prompt, or the mean of several that were prefilled together. */
export interface PrefillSample {
  readonly newTokens: number
  /** Query-key pairs. */
  readonly pairs: number
  /** How long the prefill itself took, queueing taken out. */
  readonly seconds: number
  /** Milliseconds. */
  readonly at: number
}

/** Samples are kept by size, so that a rush of small prompts does not make us forget what long ones cost. */
const SIZE_BOUNDS = [128, 512, 2048, 8192, 32_768] as const
const KEPT_PER_SIZE = 32
/** An engine may slow down or be replaced: old samples fade, but not to nothing. */
const HALF_LIFE_MS = 600_000
const LEAST_WEIGHT = 0.05
/** …and by how many of its size came after: an engine's first answers, before it is warm, must not stay true for ten minutes. */
const HALF_LIFE_SAMPLES = 8
/** Up to here every sample is worth a new fit; later every eighth. */
const EAGER_SAMPLES = 32
const LAZY_EVERY = 8
/** What the prior counts, as samples, at each of the sizes below: nearly nothing, but it settles what no sample has shown. */
const PRIOR_WEIGHT = 0.1
const PRIOR_SIZES: readonly PromptSize[] = [
  { promptTokens: 256, cachedTokens: 0 },
  { promptTokens: 2048, cachedTokens: 0 },
  { promptTokens: 16_384, cachedTokens: 0 },
  { promptTokens: 16_384, cachedTokens: 16_000 },
]
/** No prefill is shorter or longer: such a sample is a broken clock. */
const SHORTEST_S = 1e-4
const LONGEST_S = 1e4
/** So many of the last samples, all off by this factor in one direction, are no wild answers: the engine has another pace now. */
const SHIFT_SAMPLES = 6
const SHIFT_MISSES = 5
/** Samples at which we are half sure. */
const HALF_SURE_SAMPLES = 6

/** Learns one engine's law from what its prefills took. Starts from a prior, which the first samples already rescale. */
export class CostModelFitter {
  #prior: PrefillCostModel
  #costModel: PrefillCostModel
  #spread = 1
  #samples = 0
  #confidence = 0
  #sinceFit = 0
  /** null: restored, and not looked at since. */
  #lastAt: number | null = 0
  #restoredSamples = 0
  readonly #kept: PrefillSample[][] = [[], [], [], [], [], []]
  /** The last samples, with the logarithm of measured / expected at that time. */
  readonly #recent: { readonly sample: PrefillSample; readonly error: number }[] = []

  constructor(prior: PrefillCostModel) {
    this.#prior = prior
    this.#costModel = prior
  }

  get costModel(): PrefillCostModel {
    return this.#costModel
  }

  /** Its law as far as it is sure of it, and for the rest that of a sibling. */
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

  /** A better start, e.g. a sibling's law. What has been learned stays. */
  setPrior(prior: PrefillCostModel): void {
    this.#prior = prior
    if (this.#samples === 0) this.#costModel = prior
  }

  /** It is believed from the first look on, like what was learned then; the first samples confirm or replace it. */
  restore(costModel: PrefillCostModel): void {
    this.setPrior(costModel)
    this.#restoredSamples = RESTORED_SAMPLES
    this.#lastAt = null
  }

  /** Has it shown anything, now or before it was put down? */
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

  /** What it showed before is another engine's: of that only the proportions stay. */
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
    // The prior's shape at the speed seen: a profile may be off by a hundred, its proportions hardly.
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

  /** How many times slower than the prior says. */
  #pace(): number {
    let count = 0
    for (const kept of this.#kept)
      for (const sample of kept) observed.sorted[count++] = sample.seconds / secondsOf(this.#prior, sample)
    return medianOf(observed.sorted, count)
  }
}

/** Room for all that is kept and the prior; learners take turns. */
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
