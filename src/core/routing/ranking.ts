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
  /** Ids, best first. The candidates themselves would live as long as the decision. */
  readonly #ids: string[] = []
  #names: readonly string[] = []
  /** Columns of the table, each with its rows in the order of the ranking. */
  #columns = new Float64Array(0)

  /** Copies a policy's table. */
  copy({ names, table, order, ranked }: CostTable, candidates: readonly RankedEngine[]): this {
    const length = (names.length + 1) * ranked
    if (this.#columns.length < length) this.#columns = new Float64Array(length)
    for (let rank = 0; rank < ranked; rank++) this.#ids[rank] = candidates[order[rank]!]!.id
    let to = 0
    for (let from = 0; from < table.length; from += order.length)
      for (let rank = 0; rank < ranked; rank++) this.#columns[to++] = table[from + order[rank]!]!
    this.count = ranked
    this.#names = names
    return this
  }

  /** Id of the engine at that rank, 0 is the best; undefined: none. */
  engine(rank: number): string | undefined {
    return rank < this.count ? this.#ids[rank] : undefined
  }

  /** Ids, best first, from one rank up to another. */
  engines(from = 0, to = this.count): string[] {
    return this.#ids.slice(from, Math.min(to, this.count))
  }

  /** Candidates as objects, for `explain`. */
  candidates(): RankedCandidate[] {
    return this.engines().map((engine, rank) => {
      const terms = this.#names.map((name, at) => [name, this.#columns[(at + 1) * this.count + rank]!] as const)
      return { engine, cost: this.#columns[rank]!, terms: Object.fromEntries(terms) }
    })
  }
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
