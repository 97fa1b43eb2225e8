/** Standard errors by which a slope must differ from zero: half of all steady arrivals seem to rise. */
const MIN_ERRORS = 2

/** Counts from which a slope is computed. */
const MIN_COUNTS = 6

/**
 * Rise of a rate, events per second per second, from counts of equal intervals (least squares). 0: it does not rise
 * beyond the noise.
 * @param intervalS duration of an interval, seconds
 */
export function rateSlope(counts: readonly number[], intervalS: number): number {
  const n = counts.length
  if (n < MIN_COUNTS) return 0
  const meanAt = (n - 1) / 2
  const mean = counts.reduce((sum, one) => sum + one, 0) / n
  let spread = 0
  let covariance = 0
  for (const [at, count] of counts.entries()) {
    spread += (at - meanAt) ** 2
    covariance += (at - meanAt) * (count - mean)
  }
  const slope = covariance / spread
  const residual = counts.reduce((sum, count, at) => sum + (count - mean - slope * (at - meanAt)) ** 2, 0) / (n - 2)
  // Independent arrivals have at least the variance of a Poisson process, also where a few counts happen to be equal.
  const error = Math.sqrt(Math.max(residual, mean) / spread)
  return slope > MIN_ERRORS * error ? slope / intervalS ** 2 : 0
}
