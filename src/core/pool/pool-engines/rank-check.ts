/** Checks that a server sends each request to the rank that the gateway chose: a proxy may drop the header. */

/** Own completions that a verdict needs. */
const MIN_COMPLETED = 20

/** Own completions after which the counts start anew, so that single mistakes do not add up. */
const WINDOW = 200

/** Share of the own completions that other ranks must have served. */
const MOVED_SHARE = 0.05

const MIN_MOVED = 3

interface RankCounts {
  /** Requests that the rank completed since its start. */
  readonly completed: readonly number[]
  /** Requests of this gateway that ended well at the rank. */
  readonly own: readonly number[]
}

/** Compares the counter of each rank with the gateway's own completions. */
export class RankCheck {
  #base: RankCounts | null = null

  /**
   * true: ranks served requests that were sent to other ranks. Requests of other sources raise the counter of a rank
   * and lower none, so both a surplus and a deficit are needed.
   */
  ignoresHeader(counts: RankCounts): boolean {
    const base = this.#base
    if (base === null || counts.completed.some((value, at) => value < (base.completed[at] ?? Infinity))) {
      this.#base = counts
      return false
    }
    const surplus = counts.completed.map((value, at) => value - base.completed[at]! - (counts.own[at]! - base.own[at]!))
    const own = sum(counts.own) - sum(base.own)
    if (own < MIN_COMPLETED) return false
    if (own >= WINDOW) this.#base = counts
    const moved = Math.min(sum(surplus.filter((one) => one > 0)), -sum(surplus.filter((one) => one < 0)))
    return moved >= Math.max(MIN_MOVED, MOVED_SHARE * own)
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
