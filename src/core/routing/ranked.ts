import type { RankedCandidate } from '../cluster/contract.ts'
import type { Sheet } from './sheet.ts'

/**
 * One ranking in numbers, best first: what is left of it when its sheet is used again. As objects, a thousand
 * decisions over 64 engines would be a million of them, made while requests wait and collected while others do.
 */
export class Ranked {
  /** Ids, best first. Only the first `count` count. */
  readonly engines: string[] = []
  count = 0
  #terms: readonly string[] = []
  /** A row a candidate: its cost, then its terms. */
  #values = new Float64Array(0)

  /** Takes over what a policy wrote about these candidates. */
  take(sheet: Sheet, candidates: readonly { readonly id: string }[]): this {
    const { names, costs, terms, order, ranked } = sheet
    const width = names.length + 1
    if (this.#values.length < ranked * width) this.#values = new Float64Array(ranked * width)
    this.count = ranked
    this.#terms = names
    const values = this.#values
    for (let row = 0; row < ranked; row++) {
      const place = order[row]!
      this.engines[row] = candidates[place]!.id
      values[row * width] = costs[place]!
    }
    for (let term = 0; term < names.length; term++) {
      const column = terms[names[term]!]!
      for (let row = 0, at = term + 1; row < ranked; row++, at += width) values[at] = column[order[row]!]!
    }
    return this
  }

  /** As objects, for whoever asks why. */
  candidates(): RankedCandidate[] {
    const width = this.#terms.length + 1
    return this.engines.slice(0, this.count).map((engine, row) => {
      const [cost, ...own] = this.#values.subarray(row * width, (row + 1) * width)
      return { engine, cost: cost!, terms: Object.fromEntries(this.#terms.map((name, at) => [name, own[at]!])) }
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
