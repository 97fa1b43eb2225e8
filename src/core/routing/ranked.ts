import type { RankedCandidate } from '../cluster/contract.ts'
import type { Sheet } from './sheet.ts'

interface Named {
  readonly id: string
}

/**
 * One ranking in numbers: what is left of it when its sheet is used again. As objects, a thousand decisions over 64
 * engines would be a million of them, made while requests wait and collected while others do.
 */
export class Ranked {
  count = 0
  #candidates: readonly Named[] = []
  #names: readonly string[] = []
  // Copies of the sheet's, as they lie.
  #order = new Int32Array(0)
  #table = new Float64Array(0)

  /** Takes over what a policy wrote about these candidates, who stay as they are. */
  take(sheet: Sheet, candidates: readonly Named[]): this {
    if (this.#table.length !== sheet.table.length) this.#table = new Float64Array(sheet.table.length)
    if (this.#order.length !== sheet.order.length) this.#order = new Int32Array(sheet.order.length)
    this.#table.set(sheet.table)
    this.#order.set(sheet.order)
    this.count = sheet.ranked
    this.#names = sheet.names
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
export class SpareRankings {
  readonly #spare: Ranked[] = []

  next(): Ranked {
    return this.#spare.pop() ?? new Ranked()
  }

  give(rankings: readonly Ranked[]): void {
    for (const ranked of rankings) this.#spare.push(ranked)
  }
}
