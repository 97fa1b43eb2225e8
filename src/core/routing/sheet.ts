import { sortPlaces } from './sort-places.ts'

/** Rows are made by so many: an engine that joins is no reason for a new table each time. */
const STEP = 8

/**
 * Where a policy writes what it makes of the candidates: a row of numbers for each, by its place in the list it was
 * given. One sheet a policy, overwritten by its next ranking: as objects, 64 engines are 64 costs with a dozen terms
 * each for every request, and collecting that garbage takes longer than choosing.
 */
export class Sheet<Term extends string = string> {
  /** What a cost is made of, for `explain`, in the order to be shown. */
  readonly names: readonly Term[]
  /** All of it: a column of costs, then one for each term. */
  table!: Float64Array
  /** Lower is better; the unit is the policy's own. */
  costs!: Float64Array
  terms!: Readonly<Record<Term, Float64Array>>
  /** Places, best first. Only the first `ranked` count. */
  order!: Int32Array
  ranked = 0

  constructor(names: readonly Term[]) {
    this.names = names
    this.#make(STEP)
  }

  /** Makes room for so many candidates, in the order they come. What the rows hold is of another ranking. */
  open(count: number): this {
    if (count > this.order.length) this.#make(Math.ceil(count / STEP) * STEP)
    for (let place = 0; place < count; place++) this.order[place] = place
    this.ranked = count
    return this
  }

  /** Prices candidates by what is shown of them: the terms are signals of theirs, under their own names. */
  price<One extends Readonly<Record<Term, number>>>(candidates: readonly One[], cost: (one: One) => number): this {
    this.open(candidates.length)
    for (let place = 0; place < candidates.length; place++) {
      const one = candidates[place]!
      this.costs[place] = cost(one)
      for (const name of this.names) this.terms[name][place] = one[name]
    }
    return this
  }

  /** Cheapest first; equal costs keep the order they came in, which is the tie order. */
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
