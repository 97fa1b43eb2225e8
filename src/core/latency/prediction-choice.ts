/** Weight of a new error: a step ends with several first tokens, whose errors are alike. */
const ERROR_GAIN = 0.05

/** Ratio of errors from which the prediction in steps counts as the worse one. */
const WORSE_RATIO = 2

/** Chooses between the prediction in steps (`prefill-steps.ts`) and the one from the queued work by recent errors. */
export class PredictionChoice {
  /** Moving means of |log(measured / predicted)|. */
  #workError = 0
  #stepsError = 0

  /** The prediction in steps, unless it was clearly worse than the other. */
  choose(workS: number, inStepsS: number): number {
    return this.#stepsError <= WORSE_RATIO * this.#workError ? inStepsS : workS
  }

  learn(workS: number, inStepsS: number, measuredS: number): void {
    if (!(workS > 0) || !(inStepsS > 0) || !(measuredS > 0)) return
    const error = (predictedS: number): number => Math.min(1, Math.abs(Math.log(measuredS / predictedS)))
    this.#workError += ERROR_GAIN * (error(workS) - this.#workError)
    this.#stepsError += ERROR_GAIN * (error(inStepsS) - this.#stepsError)
  }
}
