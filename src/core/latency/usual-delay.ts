/** Weight of a new sample after the first ones. */
const GAIN = 0.1

interface DelayLimits {
  /** Maximum change by one sample, as a share of its own prediction and of the delay: stalls are no delay of a step. */
  readonly clip: number
  /** Maximum and minimum delay, as a multiple of the prediction without it. */
  readonly maxRatio: number
  readonly minRatio: number
}

/** Limits for predictions in steps. */
export const STEP_DELAY_LIMITS: DelayLimits = { clip: 0.1, maxRatio: 0.2, minRatio: -0.2 }

/** Limits for predictions from the queued work, which do not model steps. */
export const WORK_DELAY_LIMITS: DelayLimits = { clip: 0.15, maxRatio: 2, minRatio: -0.7 }

/**
 * Delay of first tokens beyond a prediction. Prompts that arrive before a step of the engine starts delay those ahead
 * of them in it. They are not known at booking, but under a steady load they are alike from step to step: their mean is
 * learned.
 */
export class UsualDelay {
  readonly #limits: DelayLimits
  #seconds = 0
  #samples = 0

  constructor(limits: DelayLimits) {
    this.#limits = limits
  }

  /** Seconds to add to a prediction of `predictedS` seconds. */
  seconds(predictedS: number): number {
    const { maxRatio, minRatio } = this.#limits
    return Math.min(maxRatio * predictedS, Math.max(minRatio * predictedS, this.#seconds))
  }

  /**
   * @param predictedS prediction without the delay
   * @param measuredS time to the first token
   */
  learn(predictedS: number, measuredS: number): void {
    if (!(predictedS > 0) || !(measuredS > 0)) return
    this.#samples += 1
    const limit = this.#limits.clip * (predictedS + Math.abs(this.#seconds))
    const error = Math.min(limit, Math.max(-limit, measuredS - predictedS - this.#seconds))
    this.#seconds += Math.max(GAIN, 1 / (this.#samples + 1)) * error
  }
}
