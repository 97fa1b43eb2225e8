/** Weight of a new sample after the first ones. */
const GAIN = 0.1
/** Maximum change by one sample, as a share of its own prediction and of the delay: stalls are no delay of a step. */
const CLIP = 0.15
/** Maximum delay, as a multiple of the prediction without it, and minimum. */
const MOST = 2
const LEAST = -0.7

/**
 * Delay of first tokens on a busy engine beyond the predicted wait and prefill. An engine sends the first tokens of
 * all prompts of a step at its end, so prompts that arrive before the step starts delay those ahead of them, and each
 * step also decodes the running sequences. Neither is known at booking, but under a steady load both are alike from
 * step to step: their mean is learned.
 */
export class StepDelay {
  #seconds = 0
  #samples = 0

  /** Seconds to add to a prediction of `predictedS` seconds. */
  seconds(predictedS: number): number {
    return Math.min(MOST * predictedS, Math.max(LEAST * predictedS, this.#seconds))
  }

  /**
   * @param predictedS wait and prefill as predicted, without the delay
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
