import type { RankedCandidate } from '../contract/decision.ts'
import type { CostTable } from './cost-table.ts'

interface RankedEngine {
  readonly id: string
}

/**
 * Copy of one ranking in numbers, since the cost table is overwritten. As objects, a thousand decisions over 64
 * engines would be a million of them.
 */
export class Ranking {
  count = 0
  /** Ids of the candidates. The candidates themselves would live as long as the decision. */
  readonly #ids: string[] = []
  #names: readonly string[] = []
  // Copies of the table's columns.
  #order = new Int32Array(0)
  #table = new Float64Array(0)

  /** Copies a policy's table. */
  copy(costTable: CostTable, candidates: readonly RankedEngine[]): this {
    if (this.#table.length !== costTable.table.length) this.#table = new Float64Array(costTable.table.length)
    if (this.#order.length !== costTable.order.length) this.#order = new Int32Array(costTable.order.length)
    copyInto(this.#table, costTable.table)
    copyInto(this.#order, costTable.order)
    this.count = costTable.ranked
    this.#names = costTable.names
    for (let place = 0; place < candidates.length; place++) this.#ids[place] = candidates[place]!.id
    return this
  }

  /** Id of the engine at that rank, 0 is the best; undefined: none. */
  engine(rank: number): string | undefined {
    return rank < this.count ? this.#ids[this.#order[rank]!]! : undefined
  }

  /** Ids, best first. */
  engines(): string[] {
    return Array.from({ length: this.count }, (_, rank) => this.engine(rank)!)
  }

  /** Candidates as objects, for `explain`. */
  candidates(): RankedCandidate[] {
    const rows = this.#order.length
    return this.engines().map((engine, rank) => {
      const place = this.#order[rank]!
      const terms = this.#names.map((name, at) => [name, this.#table[(at + 1) * rows + place]!] as const)
      return { engine, cost: this.#table[place]!, terms: Object.fromEntries(terms) }
    })
  }
}

/** A loop, because `set` takes longer for the few engines of most pools. */
function copyInto<List extends Float64Array | Int32Array>(target: List, source: List): void {
  for (let at = 0; at < source.length; at++) target[at] = source[at]!
}

/** Pool of unused rankings. */
export class RankingPool {
  readonly #unused: Ranking[] = []

  next(): Ranking {
    return this.#unused.pop() ?? new Ranking()
  }

  give(rankings: readonly Ranking[]): void {
    for (const ranked of rankings) this.#unused.push(ranked)
  }
}
