/** Weight of a new sample after the first ones. */
const GAIN = 0.1

/** Maximum change by one sample, as a share of its own prediction and of the delay: stalls are no delay of a step. */
const CLIP = 0.1

/** Maximum delay, as a multiple of the prediction without it, in both directions. */
const MAX_RATIO = 0.2

/**
 * Delay of first tokens beyond a prediction. Prompts that arrive before a step of the engine starts delay those ahead
 * of them in it. They are not known at booking, but under a steady load they are alike from step to step: their mean is
 * learned.
 */
export class UsualDelay {
  #seconds = 0
  #samples = 0

  /** Seconds to add to a prediction of `predictedS` seconds. */
  seconds(predictedS: number): number {
    const limit = MAX_RATIO * predictedS
    return Math.min(limit, Math.max(-limit, this.#seconds))
  }

  /**
   * @param predictedS prediction without the delay
   * @param measuredS time to the first token
   */
  learn(predictedS: number, measuredS: number): void {
    if (!(predictedS > 0) || !(measuredS > 0)) return
    this.#samples += 1
    const limit = CLIP * (predictedS + Math.abs(this.#seconds))
    const error = Math.min(limit, Math.max(-limit, measuredS - predictedS - this.#seconds))
    this.#seconds += Math.max(GAIN, 1 / (this.#samples + 1)) * error
  }
}
