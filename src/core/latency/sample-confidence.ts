/**
 * Confidence in an engine's own samples, 0 to 1. It decays, because an engine that looked slow gets no traffic, and
 * nothing else would correct it. A speed that has lasted for long is forgotten as slowly: hardware does not change,
 * but a disturbance of seconds is over in seconds.
 */

const HALF_CONFIDENCE_SAMPLES = 3

const MAX_SAMPLES = 32

/** Limits of the half-life, ms. */
const MIN_HALF_LIFE_MS = 5_000
const MAX_HALF_LIFE_MS = 600_000

/** Confidence above or below which nothing is blended. */
export const FULL_CONFIDENCE = 0.9

export const NO_CONFIDENCE = 0.05

/** Samples that a restored value counts as. */
export const RESTORED_SAMPLES = 32

/** Log factor beyond plausible error: several consecutive samples off by it in one direction show a new speed. */
export const SHIFT_LOG_FACTOR = Math.log(2)

/** When samples that agree with each other were taken, ms. */
export interface SampleTimes {
  readonly firstAt: number
  readonly lastAt: number
}

export function sampleConfidence(samples: number, { firstAt, lastAt }: SampleTimes, now: number): number {
  const halfLifeMs = Math.min(MAX_HALF_LIFE_MS, Math.max(MIN_HALF_LIFE_MS, lastAt - firstAt))
  const weightedSamples = Math.min(samples, MAX_SAMPLES) * 2 ** (-Math.max(0, now - lastAt) / halfLifeMs)
  return weightedSamples / (weightedSamples + HALF_CONFIDENCE_SAMPLES)
}
