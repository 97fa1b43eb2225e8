/**
 * How much what an engine itself has shown counts beside what its siblings show, 0 to 1. Few samples say little,
 * and old ones fade: an engine that looked slow once gets no traffic, so nothing else would ever correct it.
 */

const HALF_SURE_SAMPLES = 3
const MOST_SAMPLES = 32
const HALF_LIFE_MS = 5_000
/** As good as sure, or as good as clueless: no need to mix. */
export const SURE = 0.9
export const UNSURE = 0.05
/** What was learned before the object was put down counts as if so many samples had come just then. */
export const RESTORED_SAMPLES = 32
/** Logarithm of a factor by which no pace errs: several samples in a row that are off by it the same way show another pace. */
export const SHIFT = Math.log(2)

export function sureness(samples: number, lastAt: number, now: number): number {
  const counting = Math.min(samples, MOST_SAMPLES) * 2 ** (-Math.max(0, now - lastAt) / HALF_LIFE_MS)
  return counting / (counting + HALF_SURE_SAMPLES)
}
