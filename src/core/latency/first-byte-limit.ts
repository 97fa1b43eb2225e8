/** Logarithm of measured / predicted time: bins of this width, from `-RANGE` to `RANGE`. */
const WIDTH = 0.05

const RANGE = 5

const BINS = Math.round((2 * RANGE) / WIDTH)

/** Measurements before there is a limit. */
const MIN_MEASUREMENTS = 64

/** Each measurement counts this much more than the one before: half of the weight is that of the last 128. */
const GROWTH = 2 ** (1 / 128)

/** Weights are scaled down at this one. */
const MAX_WEIGHT = 2 ** 32

/** Measurements between two evaluations of the bins. */
const EVALUATE_EVERY = 16

/** Quantiles of the standard normal distribution. */
const Z90 = 1.2816

const Z99 = 2.3263

/**
 * Distribution of measured / predicted time to first token of one pool. Its 99th percentile is that of a log-normal
 * distribution with the measured median and 90th percentile: stalls of some requests in a hundred do not raise it, and
 * they are what it has to find.
 */
export class FirstByteLimit {
  readonly #bins = new Float64Array(BINS)
  #sum = 0
  #weight = 1
  #count = 0
  #ratio: number | null = null

  /** Limit of the time to first token, as a multiple of the prediction; null: too few measurements. */
  get ratio(): number | null {
    return this.#ratio
  }

  add(predictedMs: number, measuredMs: number): void {
    if (!(predictedMs > 0) || !(measuredMs > 0)) return
    const at = Math.floor((Math.log(measuredMs / predictedMs) + RANGE) / WIDTH)
    this.#bins[Math.min(BINS - 1, Math.max(0, at))]! += this.#weight
    this.#sum += this.#weight
    this.#count += 1
    this.#weight *= GROWTH
    if (this.#weight >= MAX_WEIGHT) this.#rescale()
    if (this.#count >= MIN_MEASUREMENTS && this.#count % EVALUATE_EVERY === 0) this.#evaluate()
  }

  /** The first byte had not come after `waitedMs`. This is a measurement only if it was late. */
  addLater(predictedMs: number, waitedMs: number): void {
    if (this.#ratio !== null && waitedMs >= this.#ratio * predictedMs) this.add(predictedMs, waitedMs)
  }

  #rescale(): void {
    for (let at = 0; at < BINS; at++) this.#bins[at]! /= this.#weight
    this.#sum /= this.#weight
    this.#weight = 1
  }

  #evaluate(): void {
    const median = this.#quantile(0.5)
    const spread = Math.max(WIDTH, this.#quantile(0.9) - median) / Z90
    this.#ratio = Math.exp(median + Z99 * spread)
  }

  /** Quantile of the logarithm: the middle of its bin. */
  #quantile(q: number): number {
    let left = q * this.#sum
    let at = 0
    while (at < BINS - 1 && (left -= this.#bins[at]!) > 0) at++
    return (at + 0.5) * WIDTH - RANGE
  }
}
