import type { RankedCandidate } from '../contract/contract.ts'
import type { CostTable } from './cost-table.ts'
import type { Random } from './policy.ts'

/** Scale of the costs: the largest (dynamo#1731) or the range (Dynamo today). */
export type Scale = 'max' | 'range'

/**
 * Draws the winner with probability proportional to exp(-cost / (scale * temperature)); the others follow by cost.
 * Temperature 0 keeps the order. The table must be sorted by cost.
 */
export function softmax(costTable: CostTable, temperature: number, scale: Scale, random: Random): CostTable {
  const { costs, order, ranked } = costTable
  if (temperature <= 0 || ranked < 2) return costTable
  const least = costs[order[0]!]!
  const most = costs[order[ranked - 1]!]!
  const unit = (scale === 'max' ? most : most - least) * temperature
  // Relative to the best, so that no exponent is positive. Equal costs: uniform.
  const weights = Array.from(order.subarray(0, ranked), (place) =>
    unit > 0 ? Math.exp(-(costs[place]! - least) / unit) : 1,
  )
  let draw = random() * weights.reduce((sum, weight) => sum + weight, 0)
  let winner = 0
  while (winner < ranked - 1 && (draw -= weights[winner]!) >= 0) winner++
  const drawn = order[winner]!
  order.copyWithin(1, 0, winner)
  order[0] = drawn
  return costTable
}

interface Named {
  readonly id: string
}

/**
 * Copy of one ranking in numbers, since the cost table is overwritten. As objects, a thousand decisions over 64
 * engines would be a million of them.
 */
export class Ranking {
  count = 0
  #candidates: readonly Named[] = []
  #names: readonly string[] = []
  // Copies of the table's columns.
  #order = new Int32Array(0)
  #table = new Float64Array(0)

  /** Copies a policy's table. The candidates must not change afterwards. */
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

  /** Id of the engine at that rank, 0 is the best; undefined: none. */
  engine(rank: number): string | undefined {
    return rank < this.count ? this.#candidates[this.#order[rank]!]!.id : undefined
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

/** Pool of unused rankings. */
export class RankingPool {
  readonly #spare: Ranking[] = []

  next(): Ranking {
    return this.#spare.pop() ?? new Ranking()
  }

  give(rankings: readonly Ranking[]): void {
    for (const ranked of rankings) this.#spare.push(ranked)
  }
}
