/** Weight of a new sample after the first ones. */
const GAIN = 0.1
/** Maximum change by one sample, as a share of its own prediction and of the delay: stalls are no delay of a step. */
const CLIP = 0.1
/** Maximum delay, either way, as a share of the prediction without it. */
const MOST = 0.2

/** Weight of a new error: a step ends with several first tokens, whose errors are alike. */
const ERROR_GAIN = 0.05
/** Ratio of errors from which the prediction in steps counts as the worse one. */
const CLEARLY = 2

/**
 * Delay of first tokens beyond the prediction in steps (`prefill-steps.ts`). Prompts that arrive before a step starts
 * delay those ahead of them in it. They are not known at booking, but under a steady load they are alike from step to
 * step: their mean is learned. Where the steps are clearly wrong, the queued work is the better prediction.
 */
export class StepDelay {
  #seconds = 0
  #samples = 0
  /** Moving means of |log(measured / predicted)| of both predictions. */
  #workError = 0
  #stepsError = 0

  /** The prediction to start from: in steps, unless it was clearly worse than the other. */
  better(workS: number, inStepsS: number): number {
    return this.#stepsError <= CLEARLY * this.#workError ? inStepsS : workS
  }

  /** @param workS prediction without steps */
  compare(workS: number, inStepsS: number, measuredS: number): void {
    if (!(workS > 0) || !(inStepsS > 0) || !(measuredS > 0)) return
    const error = (predictedS: number): number => Math.min(1, Math.abs(Math.log(measuredS / predictedS)))
    this.#workError += ERROR_GAIN * (error(workS) - this.#workError)
    this.#stepsError += ERROR_GAIN * (error(inStepsS) - this.#stepsError)
  }

  /** Seconds to add to a prediction of `predictedS` seconds. */
  seconds(predictedS: number): number {
    return Math.min(MOST * predictedS, Math.max(-MOST * predictedS, this.#seconds))
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
