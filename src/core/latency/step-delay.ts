/** Weight of a new sample after the first ones. */
const GAIN = 0.1

export interface DelayLimits {
  /** Maximum change by one sample, as a share of its own prediction and of the delay: stalls are no delay of a step. */
  readonly clip: number
  /** Maximum and minimum delay, as a multiple of the prediction without it. */
  readonly most: number
  readonly least: number
}

/** Of predictions in steps. */
export const IN_STEPS: DelayLimits = { clip: 0.1, most: 0.2, least: -0.2 }
/** Of predictions from the queued work, which do not model steps. */
export const OF_WORK: DelayLimits = { clip: 0.15, most: 2, least: -0.7 }

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
    const { most, least } = this.#limits
    return Math.min(most * predictedS, Math.max(least * predictedS, this.#seconds))
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

/** Weight of a new error: a step ends with several first tokens, whose errors are alike. */
const ERROR_GAIN = 0.05
/** Ratio of errors from which the prediction in steps counts as the worse one. */
const CLEARLY = 2

/** Chooses between the prediction in steps (`prefill-steps.ts`) and the one from the queued work by recent errors. */
export class BetterPrediction {
  /** Moving means of |log(measured / predicted)|. */
  #workError = 0
  #stepsError = 0

  /** The prediction in steps, unless it was clearly worse than the other. */
  better(workS: number, inStepsS: number): number {
    return this.#stepsError <= CLEARLY * this.#workError ? inStepsS : workS
  }

  compare(workS: number, inStepsS: number, measuredS: number): void {
    if (!(workS > 0) || !(inStepsS > 0) || !(measuredS > 0)) return
    const error = (predictedS: number): number => Math.min(1, Math.abs(Math.log(measuredS / predictedS)))
    this.#workError += ERROR_GAIN * (error(workS) - this.#workError)
    this.#stepsError += ERROR_GAIN * (error(inStepsS) - this.#stepsError)
  }
}
