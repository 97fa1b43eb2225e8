import { sortPlaces } from './sort-places.ts'

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
