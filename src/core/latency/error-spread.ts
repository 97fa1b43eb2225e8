/** Change of the factor by one first token. */
const GAIN = 0.02

const QUANTILE = 0.9

/** Limits of the factor, and its value before the first sample. */
const MAX_FACTOR = 1.5
const FIRST_FACTOR = 1.2

/**
 * How late first tokens are that wait behind others: the 90th percentile of measured by predicted time, at least 1
 * (stochastic quantile estimation).
 */
export class ErrorSpread {
  #factor = FIRST_FACTOR

  get factor(): number {
    return this.#factor
  }

  /** @param predictedS prediction of the median */
  learn(predictedS: number, measuredS: number): void {
    if (!(predictedS > 0) || !(measuredS > 0)) return
    const step = measuredS > this.#factor * predictedS ? GAIN * QUANTILE : -GAIN * (1 - QUANTILE)
    this.#factor = Math.min(MAX_FACTOR, Math.max(1, this.#factor + step))
  }
}
