/** Ratios of pairs that were measured next to each other: their median with the 95 % interval of the median. */
import { median } from '../median.ts'

export interface PairedRatio {
  readonly ratio: number
  readonly low: number
  readonly high: number
  readonly pairs: number
}

/** Half of the interval in ranks, in square roots of the number of pairs (order statistics of the median). */
const HALF_WIDTH = 0.98

/** Of values of one subject over those of another, by round; a round without both is left out. null: no pair. */
export function pairedRatio(own: readonly (number | null)[], other: readonly (number | null)[]): PairedRatio | null {
  const ratios = own
    .flatMap((value, round) => {
      const against = other[round] ?? null
      return value === null || against === null || against === 0 ? [] : [value / against]
    })
    .sort((a, b) => a - b)
  const pairs = ratios.length
  if (pairs === 0) return null
  const first = Math.max(0, Math.floor(pairs / 2 - HALF_WIDTH * Math.sqrt(pairs)))
  return { ratio: median(ratios), low: ratios[first]!, high: ratios[pairs - 1 - first]!, pairs }
}
