/** Up to so many, insertion beats merging. */
const RUN = 16

let spare = new Int32Array(64)

/** Sorts places `from` up to `to` by their keys, smallest first; equal ones keep their order. Leaves no garbage, as sorting objects does. */
export function sortPlaces(places: Int32Array, keys: Float64Array, from: number, to: number): void {
  for (let start = from; start < to; start += RUN) insertAll(places, keys, start, Math.min(start + RUN, to))
  if (spare.length < to) spare = new Int32Array(to)
  for (let width = RUN; width < to - from; width *= 2) {
    for (let middle = from + width; middle < to; middle += 2 * width) merge(places, keys, middle, { from: middle - width, to: Math.min(middle + width, to) })
  }
}

function insertAll(places: Int32Array, keys: Float64Array, from: number, to: number): void {
  for (let at = from + 1; at < to; at++) {
    const place = places[at]!
    const key = keys[place]!
    let hole = at
    for (; hole > from && key < keys[places[hole - 1]!]!; hole--) places[hole] = places[hole - 1]!
    places[hole] = place
  }
}

/** Makes one sorted stretch of the two that meet at `middle`. */
function merge(places: Int32Array, keys: Float64Array, middle: number, { from, to }: { readonly from: number; readonly to: number }): void {
  if (!(keys[places[middle]!]! < keys[places[middle - 1]!]!)) return
  for (let at = from; at < middle; at++) spare[at] = places[at]!
  let left = from
  let right = middle
  for (let at = from; left < middle; at++) {
    places[at] = right < to && keys[places[right]!]! < keys[spare[left]!]! ? places[right++]! : spare[left++]!
  }
}
