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
  /** Rows of the table in the order of the ranking, each with its cost and then its terms. */
  #rows = new Float64Array(0)

  /** Copies a policy's table. */
  copy({ names, table, order, ranked }: CostTable, candidates: readonly RankedEngine[]): this {
    const length = (names.length + 1) * ranked
    if (this.#rows.length < length) this.#rows = new Float64Array(length)
    let to = 0
    for (let rank = 0; rank < ranked; rank++) {
      const place = order[rank]!
      this.#ids[rank] = candidates[place]!.id
      for (let from = place; from < table.length; from += order.length) this.#rows[to++] = table[from]!
    }
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
    const width = this.#names.length + 1
    return this.engines().map((engine, rank) => {
      const [cost, ...values] = this.#rows.subarray(rank * width, (rank + 1) * width)
      return { engine, cost: cost!, terms: Object.fromEntries(this.#names.map((name, at) => [name, values[at]!])) }
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
