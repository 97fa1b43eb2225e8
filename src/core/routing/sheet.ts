import { sortPlaces } from './sort-places.ts'

const FIRST_ROWS = 16

/**
 * Where a policy writes what it makes of the candidates: a row of numbers for each, by its place in the list it was
 * given. One sheet a policy, overwritten by its next ranking: as objects, 64 engines are 64 costs with a dozen terms
 * each for every request, and collecting that garbage takes longer than choosing.
 */
export class Sheet<Term extends string = string> {
  /** What a cost is made of, for `explain`, in the order to be shown. */
  readonly names: readonly Term[]
  /** Lower is better; the unit is the policy's own. */
  costs!: Float64Array
  terms!: Readonly<Record<Term, Float64Array>>
  /** Places, best first. Only the first `ranked` count. */
  order!: Int32Array
  ranked = 0

  constructor(names: readonly Term[]) {
    this.names = names
    this.#make(FIRST_ROWS)
  }

  /** Makes room for so many candidates, in the order they come. What the rows hold is of another ranking. */
  open(count: number): this {
    if (count > this.costs.length) this.#make(Math.max(count, 2 * this.costs.length))
    for (let place = 0; place < count; place++) this.order[place] = place
    this.ranked = count
    return this
  }

  /** Cheapest first; equal costs keep the order they came in, which is the tie order. */
  byCost(): this {
    sortPlaces(this.order, this.costs, 0, this.ranked)
    return this
  }

  #make(rows: number): void {
    this.costs = new Float64Array(rows)
    this.order = new Int32Array(rows)
    const terms: Partial<Record<Term, Float64Array>> = {}
    for (const name of this.names) terms[name] = new Float64Array(rows)
    this.terms = terms as Record<Term, Float64Array>
  }
}
