/**
 * Adds to one place of a Fenwick tree of whole numbers (prefix sums in O(log n)). Exact while the total is below 2^53.
 * Places start at 1; the array is one longer.
 */
export function addAt(place: number, by: number, sums: Float64Array): void {
  for (let at = place; at < sums.length; at += at & -at) sums[at]! += by
}

/** Returns the sum up to and including `place`. */
export function sumTo(place: number, sums: Float64Array): number {
  let sum = 0
  for (let at = place; at > 0; at &= at - 1) sum += sums[at]!
  return sum
}
