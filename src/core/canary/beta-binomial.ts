/** Tail of a beta-binomial distribution: how likely a count is, given another count of the same kind. */

/** Coefficients of Lanczos' approximation with g = 7 (Numerical Recipes, 6.1). */
const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
]
const G = 7

/** Natural logarithm of the gamma function, for arguments of at least 1. */
function logGamma(value: number): number {
  const x = value - 1
  const sum = LANCZOS.slice(1).reduce((total, coefficient, at) => total + coefficient / (x + at + 1), LANCZOS[0]!)
  const t = x + G + 0.5
  return 0.5 * Math.log(2 * Math.PI) + (x + 0.5) * Math.log(t) - t + Math.log(sum)
}

const logBeta = (a: number, b: number): number => logGamma(a) + logGamma(b) - logGamma(a + b)

const logChoose = (n: number, k: number): number => logGamma(n + 1) - logGamma(k + 1) - logGamma(n - k + 1)

export interface Count {
  readonly of: number
  readonly hits: number
}

/**
 * Returns the probability of at least so many hits, if the rate is that of `base`. The rate is uncertain: with a
 * uniform prior, it has the distribution Beta(hits + 1, misses + 1).
 */
export function tailProbability({ of, hits }: Count, base: Count): number {
  const a = base.hits + 1
  const b = base.of - base.hits + 1
  let sum = 0
  for (let k = hits; k <= of; k++) sum += Math.exp(logChoose(of, k) + logBeta(k + a, of - k + b) - logBeta(a, b))
  return Math.min(1, sum)
}
