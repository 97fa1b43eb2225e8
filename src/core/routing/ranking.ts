import type { RankedCandidate } from '../contract/contract.ts'
import type { CostTable } from './cost-table.ts'

interface Named {
  readonly id: string
}

/**
 * One ranking in numbers: what is left of it when its sheet is used again. As objects, a thousand decisions over 64
 * engines would be a million of them, made while requests wait and collected while others do.
 */
export class Ranking {
  count = 0
  #candidates: readonly Named[] = []
  #names: readonly string[] = []
  // Copies of the sheet's, as they lie.
  #order = new Int32Array(0)
  #table = new Float64Array(0)

  /** Takes over what a policy wrote about these candidates, who stay as they are. */
  take(costTable: CostTable, candidates: readonly Named[]): this {
    if (this.#table.length !== costTable.table.length) this.#table = new Float64Array(costTable.table.length)
    if (this.#order.length !== costTable.order.length) this.#order = new Int32Array(costTable.order.length)
    this.#table.set(costTable.table)
    this.#order.set(costTable.order)
    this.count = costTable.ranked
    this.#names = costTable.names
    this.#candidates = candidates
    return this
  }

  /** Id of the one at that rank, 0 the best; undefined: nobody is. */
  engine(rank: number): string | undefined {
    return rank < this.count ? this.#candidates[this.#order[rank]!]!.id : undefined
  }

  /** Ids, best first. */
  engines(): string[] {
    return Array.from({ length: this.count }, (_, rank) => this.engine(rank)!)
  }

  /** As objects, for whoever asks why. */
  candidates(): RankedCandidate[] {
    const rows = this.#order.length
    return this.engines().map((engine, rank) => {
      const place = this.#order[rank]!
      const terms = this.#names.map((name, at) => [name, this.#table[(at + 1) * rows + place]!] as const)
      return { engine, cost: this.#table[place]!, terms: Object.fromEntries(terms) }
    })
  }
}

/** Rankings that nobody needs any more, for the next ones to be written into. */
export class RankingPool {
  readonly #spare: Ranking[] = []

  next(): Ranking {
    return this.#spare.pop() ?? new Ranking()
  }

  give(rankings: readonly Ranking[]): void {
    for (const ranked of rankings) this.#spare.push(ranked)
  }
}
