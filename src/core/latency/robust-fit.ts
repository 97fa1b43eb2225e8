import type { PrefillCostModel } from './prefill-cost-model.ts'

const ROUNDS = 8

/** Robust rounds: the first tolerate outliers, the later ones reject them. */
const HUBER_ROUNDS = 4

const HUBER = 1.345

const TUKEY = 4.685

/** Minimum scale of residuals (3 %), which is noise. */
const MIN_SPREAD = 0.03

interface Fit {
  readonly costModel: PrefillCostModel
  /** Robust standard deviation of log(measured / fitted); 0.1 is about 10 %. */
  readonly spread: number
}

/** Observations as columns, so that a fit on the routing thread allocates nothing. */
export class Observations {
  count = 0
  newTokens = new Float64Array(256)
  pairs = new Float64Array(256)
  seconds = new Float64Array(256)
  weight = new Float64Array(256)
  /** Of the present round: seconds by the model, and log(measured / fitted). */
  fitted = new Float64Array(256)
  residual = new Float64Array(256)
  sorted = new Float64Array(256)

  add(newTokens: number, pairs: number, seconds: number, weight: number): void {
    if (this.count === this.weight.length)
      throw new RangeError(`A fit takes at most ${this.weight.length} observations`)
    this.newTokens[this.count] = newTokens
    this.pairs[this.count] = pairs
    this.seconds[this.count] = seconds
    this.weight[this.count] = weight
    this.count++
  }
}

/**
 * Robust weighted least squares of relative errors with coefficients that cannot be negative: iterated weights, first
 * Huber's, then Tukey's biweight, so that one answer in five may be wild. `start` decides what counts as wild at first.
 */
export function fit(observations: Observations, start: PrefillCostModel): Fit {
  let costModel = start
  let spread = 1
  for (let round = 0; round < ROUNDS; round++) {
    for (let at = 0; at < observations.count; at++) {
      observations.fitted[at] = predict(costModel, observations, at)
      observations.residual[at] = Math.log(observations.seconds[at]! / observations.fitted[at]!)
      observations.sorted[at] = Math.abs(observations.residual[at]!)
    }
    spread = Math.max(MIN_SPREAD, 1.4826 * medianOf(observations.sorted, observations.count))
    const next = step(observations, costModel, { spread, reject: round >= HUBER_ROUNDS })
    if (next === null) break
    costModel = next
  }
  return { costModel, spread }
}

/** Sorts the first `count` values in place. */
export function medianOf(values: Float64Array, count: number): number {
  if (count === 0) return 0
  const sorted = values.subarray(0, count).sort()
  const middle = count >> 1
  return count % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

function huber(size: number): number {
  return Math.min(1, HUBER / Math.max(1e-9, Math.abs(size)))
}

function tukey(size: number): number {
  const share = size / TUKEY
  return Math.abs(share) >= 1 ? 0 : (1 - share * share) ** 2
}

function predict(costModel: PrefillCostModel, observations: Observations, at: number): number {
  return Math.max(
    1e-9,
    costModel.fixedS + costModel.perTokenS * observations.newTokens[at]! + costModel.perPairS * observations.pairs[at]!,
  )
}

// One fit runs at a time: everything below works in place.
/** Normal equations: a symmetric matrix by rows, and the right side. */
const gram = new Float64Array(9)

const target = new Float64Array(3)

const row = new Float64Array(3)

/** Up to three equations with their right side, while they are solved. */
const system = new Float64Array(12)

const factors = new Float64Array(3)

/** One weighted least-squares step; null when the observations determine nothing. */
function step(
  observations: Observations,
  costModel: PrefillCostModel,
  { spread, reject }: { readonly spread: number; readonly reject: boolean },
): PrefillCostModel | null {
  // Columns are scaled by the present coefficients, so that the unknowns are factors near one.
  const fixed = Math.max(costModel.fixedS, 1e-6)
  const perToken = Math.max(costModel.perTokenS, 1e-9)
  const perPair = Math.max(costModel.perPairS, 1e-14)
  gram.fill(0)
  target.fill(0)
  row[0] = fixed
  for (let at = 0; at < observations.count; at++) {
    const size = observations.residual[at]! / spread
    const weight = (observations.weight[at]! * (reject ? tukey(size) : huber(size))) / observations.fitted[at]! ** 2
    row[1] = perToken * observations.newTokens[at]!
    row[2] = perPair * observations.pairs[at]!
    for (let one = 0; one < 3; one++) {
      target[one]! += weight * row[one]! * observations.seconds[at]!
      for (let other = 0; other < 3; other++) gram[one * 3 + other]! += weight * row[one]! * row[other]!
    }
  }
  return solve()
    ? { fixedS: factors[0]! * fixed, perTokenS: factors[1]! * perToken, perPairS: factors[2]! * perPair }
    : null
}

const ALL = [0, 1, 2] as const

const SUBSETS = [[0, 1], [0, 2], [1, 2], [0], [1], [2]] as const

/** Least squares under non-negativity: with three unknowns the best of all subsets is found by trying them. */
function solve(): boolean {
  if (solveSubset(ALL)) return true
  let best: Float64Array | null = null
  let minLoss = Infinity
  for (const subset of SUBSETS) {
    if (!solveSubset(subset) || loss() >= minLoss) continue
    minLoss = loss()
    best = factors.slice()
  }
  if (best !== null) factors.set(best)
  return best !== null
}

/** Weighted squared error, less the part that is the same for all. */
function loss(): number {
  let sum = 0
  for (let one = 0; one < 3; one++) {
    sum -= 2 * factors[one]! * target[one]!
    for (let other = 0; other < 3; other++) sum += factors[one]! * factors[other]! * gram[one * 3 + other]!
  }
  return sum
}

/**
 * Gauss-Jordan with the other unknowns at zero. false: the observations cannot tell them apart, or one would be
 * negative.
 */
function solveSubset(subset: readonly number[]): boolean {
  const size = subset.length
  for (let one = 0; one < size; one++) {
    for (let other = 0; other < size; other++) system[one * 4 + other] = gram[subset[one]! * 3 + subset[other]!]!
    system[one * 4 + 3] = target[subset[one]!]!
  }
  for (let column = 0; column < size; column++) {
    // Symmetric and positive: the diagonal is the pivot.
    const pivot = system[column * 4 + column]!
    if (!(pivot > 1e-12 * gram[subset[column]! * 4]!)) return false
    for (let at = 0; at < size; at++) if (at !== column) eliminate(at, column, system[at * 4 + column]! / pivot)
  }
  factors.fill(0)
  for (let at = 0; at < size; at++) {
    const factor = system[at * 4 + 3]! / system[at * 4 + at]!
    if (factor < 0) return false
    factors[subset[at]!] = factor
  }
  return true
}

function eliminate(at: number, column: number, factor: number): void {
  for (let entry = 0; entry < 4; entry++) system[at * 4 + entry]! -= factor * system[column * 4 + entry]!
}
