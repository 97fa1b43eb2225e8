/**
 * Sums up to any place of a row of whole numbers, in steps that grow with the logarithm of its length (a Fenwick tree).
 * As long as all of it is below 2^53, nothing drifts. Places begin at 1: the row is as long as it has them, and one longer.
 */
export function addAt(place: number, by: number, sums: Float64Array): void {
  for (let at = place; at < sums.length; at += at & -at) sums[at]! += by
}

/** With that at `place`. */
export function sumTo(place: number, sums: Float64Array): number {
  let sum = 0
  for (let at = place; at > 0; at &= at - 1) sum += sums[at]!
  return sum
}
