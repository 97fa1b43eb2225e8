/** Length up to which insertion sort is faster than merging. */
const RUN = 16

let spare = new Int32Array(64)

/** Sorts the places `from` to `to` by their keys, ascending and stable. Allocates nothing, unlike sorting objects. */
export function sortPlaces(places: Int32Array, keys: Float64Array, from: number, to: number): void {
  for (let start = from; start < to; start += RUN) insertAll(places, keys, start, Math.min(start + RUN, to))
  if (spare.length < to) spare = new Int32Array(to)
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
  for (let at = from; at < middle; at++) spare[at] = places[at]!
  let left = from
  let right = middle
  for (let at = from; left < middle; at++) {
    places[at] = right < to && keys[places[right]!]! < keys[spare[left]!]! ? places[right++]! : spare[left++]!
  }
}

export interface TieBand {
  /** Costs within this distance of the best are tied. */
  readonly within: number
  /** Additional condition for a tie of two places. */
  readonly alike: (place: number, best: number) => boolean
}

/**
 * Sorts by cost, with all ties of the best first, so that an imperceptible difference does not exclude an engine for
 * good.
 */
export function sortWithinTolerance(costTable: CostTable, { within, alike }: TieBand): CostTable {
  const { costs, order, ranked } = costTable
  if (within <= 0 || ranked < 2) return costTable.byCost()
  let best = 0
  for (let place = 1; place < ranked; place++) if (costs[place]! < costs[best]!) best = place
  const most = costs[best]! + within
  let good = 0
  let others = ranked
  for (let place = 0; place < ranked; place++) {
    if (!(costs[place]! > most) && alike(place, best)) order[good++] = place
    else order[--others] = place
  }
  order.subarray(good, ranked).reverse()
  sortPlaces(order, costs, good, ranked)
  return costTable
}

/** Growth step of the table: one more engine must not replace it each time. */
const STEP = 8

/**
 * Cost table of a policy: one row per candidate, in their order. Each policy has one table, which its next ranking
 * overwrites. As objects, 64 engines with a dozen terms would be garbage of every request, and collecting it takes
 * longer than choosing.
 */
export class CostTable<Term extends string = string> {
  /** Names of the terms, in the order shown by `explain`. */
  readonly names: readonly Term[]
  /** Column of costs, then one column per term. */
  table!: Float64Array
  /** Lower is better; the unit is the policy's own. */
  costs!: Float64Array
  terms!: Readonly<Record<Term, Float64Array>>
  /** Places, best first. Only the first `ranked` are valid. */
  order!: Int32Array
  ranked = 0

  constructor(names: readonly Term[]) {
    this.names = names
    this.#make(STEP)
  }

  /** Prepares rows for this many candidates. The rows contain values of the previous ranking. */
  reset(count: number): this {
    if (count > this.order.length) this.#make(Math.ceil(count / STEP) * STEP)
    for (let place = 0; place < count; place++) this.order[place] = place
    this.ranked = count
    return this
  }

  /** Fills costs from signals; the terms are signals under their own names. */
  fill<One extends Readonly<Record<Term, number>>>(candidates: readonly One[], cost: (one: One) => number): this {
    this.reset(candidates.length)
    for (let place = 0; place < candidates.length; place++) {
      const one = candidates[place]!
      this.costs[place] = cost(one)
      for (const name of this.names) this.terms[name][place] = one[name]
    }
    return this
  }

  /** Ranks by cost; ties keep the order of the candidates. */
  byCost(): this {
    sortPlaces(this.order, this.costs, 0, this.ranked)
    return this
  }

  #make(rows: number): void {
    this.order = new Int32Array(rows)
    this.table = new Float64Array(rows * (this.names.length + 1))
    const column = (at: number) => this.table.subarray(at * rows, (at + 1) * rows)
    this.costs = column(0)
    const terms: Partial<Record<Term, Float64Array>> = {}
    this.names.forEach((name, at) => (terms[name] = column(at + 1)))
    this.terms = terms as Record<Term, Float64Array>
  }
}
