/**
 * Confidence in an engine's own samples, 0 to 1. It decays, because an engine that looked slow gets no traffic, and
 * nothing else would correct it.
 */

const HALF_CONFIDENCE_SAMPLES = 3

const MAX_SAMPLES = 32

const HALF_LIFE_MS = 5_000

/** Confidence above or below which nothing is blended. */
export const FULL_CONFIDENCE = 0.9

export const NO_CONFIDENCE = 0.05

/** Samples that a restored value counts as. */
export const RESTORED_SAMPLES = 32

/** Log factor beyond plausible error: several consecutive samples off by it in one direction show a new speed. */
export const SHIFT_LOG_FACTOR = Math.log(2)

export function sampleConfidence(samples: number, lastAt: number, now: number): number {
  const weightedSamples = Math.min(samples, MAX_SAMPLES) * 2 ** (-Math.max(0, now - lastAt) / HALF_LIFE_MS)
  return weightedSamples / (weightedSamples + HALF_CONFIDENCE_SAMPLES)
}
