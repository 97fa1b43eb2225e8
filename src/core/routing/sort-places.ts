/** Length up to which insertion sort is faster than merging. */
const RUN = 16

let mergeBuffer = new Int32Array(64)

/** Sorts the places `from` to `to` by their keys, ascending and stable. Allocates nothing, unlike sorting objects. */
export function sortPlaces(places: Int32Array, keys: Float64Array, from: number, to: number): void {
  for (let start = from; start < to; start += RUN) insertAll(places, keys, start, Math.min(start + RUN, to))
  if (mergeBuffer.length < to) mergeBuffer = new Int32Array(to)
  for (let width = RUN; width < to - from; width *= 2) {
    for (let middle = from + width; middle < to; middle += 2 * width)
      merge(places, keys, middle, { from: middle - width, to: Math.min(middle + width, to) })
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

/** Merges two sorted ranges that meet at `middle`. */
function merge(
  places: Int32Array,
  keys: Float64Array,
  middle: number,
  { from, to }: { readonly from: number; readonly to: number },
): void {
  if (!(keys[places[middle]!]! < keys[places[middle - 1]!]!)) return
  for (let at = from; at < middle; at++) mergeBuffer[at] = places[at]!
  let left = from
  let right = middle
  for (let at = from; left < middle; at++) {
    places[at] =
      right < to && keys[places[right]!]! < keys[mergeBuffer[left]!]! ? places[right++]! : mergeBuffer[left++]!
  }
}
