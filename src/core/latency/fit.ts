import type { Law } from './law.ts'

/** One observation as the fit sees it. */
export interface Point {
  readonly newTokens: number
  readonly pairs: number
  readonly seconds: number
  readonly weight: number
}

const ROUNDS = 8
/** The first rounds tolerate outliers, the later ones reject them. */
const HUBER_ROUNDS = 4
const HUBER = 1.345
const TUKEY = 4.685
/** Residuals smaller than this (3 %) are noise, however well everything else fits. */
const LEAST_SPREAD = 0.03

export interface Fit {
  readonly law: Law
  /** Robust standard deviation of log(measured / fitted); 0.1 is about 10 %. */
  readonly spread: number
}

/**
 * Robust weighted least squares of relative errors with coefficients that cannot be negative: iterated weights, first
 * Huber's, then Tukey's biweight, so that one answer in five may be wild. `start` decides what counts as wild at first.
 */
export function fit(points: readonly Point[], start: Law): Fit {
  let law = start
  let spread = 1
  for (let round = 0; round < ROUNDS; round++) {
    const residuals = points.map((point) => Math.log(point.seconds / predict(law, point)))
    spread = Math.max(LEAST_SPREAD, 1.4826 * median(residuals.map(Math.abs)))
    const weights = residuals.map((residual) => (round < HUBER_ROUNDS ? huber(residual / spread) : tukey(residual / spread)))
    const next = solve(points, weights, law)
    if (next === null) break
    law = next
  }
  return { law, spread }
}

const huber = (size: number): number => Math.min(1, HUBER / Math.max(1e-9, Math.abs(size)))

function tukey(size: number): number {
  const share = size / TUKEY
  return Math.abs(share) >= 1 ? 0 : (1 - share * share) ** 2
}

function predict(law: Law, { newTokens, pairs }: Pick<Point, 'newTokens' | 'pairs'>): number {
  return Math.max(1e-9, law.fixedS + law.perTokenS * newTokens + law.perPairS * pairs)
}

export function median(values: readonly number[]): number {
  if (values.length === 0) return 0
  const sorted = [...values].sort((one, other) => one - other)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

const SUBSETS = [[0, 1, 2], [0, 1], [0, 2], [1, 2], [0], [1], [2]] as const

/** Least squares under non-negativity: with three unknowns the best of all subsets is found by trying them. */
function solve(points: readonly Point[], robust: readonly number[], law: Law): Law | null {
  const gram = new Float64Array(9)
  const target = new Float64Array(3)
  // Columns are scaled by the present coefficients, so that the unknowns are factors near one.
  const scale = [Math.max(law.fixedS, 1e-6), Math.max(law.perTokenS, 1e-9), Math.max(law.perPairS, 1e-14)] as const
  points.forEach((point, at) => {
    const weight = (point.weight * robust[at]!) / predict(law, point) ** 2
    const row = [scale[0], scale[1] * point.newTokens, scale[2] * point.pairs] as const
    for (let one = 0; one < 3; one++) {
      target[one]! += weight * row[one]! * point.seconds
      for (let other = 0; other < 3; other++) gram[one * 3 + other]! += weight * row[one]! * row[other]!
    }
  })
  let best: readonly number[] | null = null
  let least = Infinity
  for (const subset of SUBSETS) {
    const factors = solveSubset(gram, target, subset)
    if (factors === null || factors.some((factor) => factor < 0)) continue
    const loss = lossOf(gram, target, factors)
    if (loss < least) {
      least = loss
      best = factors
    }
    if (subset.length === 3) break
  }
  return best === null ? null : { fixedS: best[0]! * scale[0], perTokenS: best[1]! * scale[1], perPairS: best[2]! * scale[2] }
}

/** Weighted squared error, less the part that is the same for all. */
function lossOf(gram: Float64Array, target: Float64Array, factors: readonly number[]): number {
  let loss = 0
  for (let one = 0; one < 3; one++) {
    loss -= 2 * factors[one]! * target[one]!
    for (let other = 0; other < 3; other++) loss += factors[one]! * factors[other]! * gram[one * 3 + other]!
  }
  return loss
}

/** Gaussian elimination with the other unknowns at zero; null when the points cannot tell them apart. */
function solveSubset(gram: Float64Array, target: Float64Array, subset: readonly number[]): number[] | null {
  const size = subset.length
  const rows = subset.map((one) => [...subset.map((other) => gram[one * 3 + other]!), target[one]!])
  for (let column = 0; column < size; column++) {
    let pivot = column
    for (let row = column + 1; row < size; row++) if (Math.abs(rows[row]![column]!) > Math.abs(rows[pivot]![column]!)) pivot = row
    const found = rows[pivot]!
    if (Math.abs(found[column]!) < 1e-12 * Math.abs(gram[subset[column]! * 4]!) || found[column] === 0) return null
    rows[pivot] = rows[column]!
    rows[column] = found
    for (let row = 0; row < size; row++) {
      if (row === column) continue
      const factor = rows[row]![column]! / found[column]!
      for (let at = column; at <= size; at++) rows[row]![at]! -= factor * found[at]!
    }
  }
  const factors = [0, 0, 0]
  subset.forEach((one, at) => (factors[one] = rows[at]![size]! / rows[at]![at]!))
  return factors
}
