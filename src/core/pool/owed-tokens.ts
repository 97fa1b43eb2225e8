import { ChurnMap } from '../churn-map.ts'

/** Delay, ms, within which a first token that is later than predicted is no sign of a fault. */
const MIN_ERROR_MS = 1_000

/** Further error of a prediction, as a share of it. */
const ERROR_SHARE = 0.5

/** Factor on both while the pace of the engine is not learned. */
const UNLEARNED_FACTOR = 4

/** A first output that the engine owes. Times are ms since the epoch. */
interface OwedToken {
  readonly dueAt: number
  /** Error of the prediction, ms. */
  readonly errorMs: number
}

/** Returns the error of a predicted first output, ms. @testing */
export function predictionErrorMs(predictedMs: number, isLearned: boolean): number {
  return (isLearned ? 1 : UNLEARNED_FACTOR) * (MIN_ERROR_MS + ERROR_SHARE * predictedMs)
}

/**
 * First outputs that an engine owes by the gateway's own predictions. No client can move these times: a request that
 * is given up before its time leaves nothing behind, and one that is given up later stays as evidence until the engine
 * moves.
 */
export class OwedTokens {
  readonly #owed = new ChurnMap<string, OwedToken>()
  /** Oldest overdue request whose client has left. */
  #left: OwedToken | null = null

  get size(): number {
    return this.#owed.size
  }

  /** @param predictedMs from now to the first output */
  add(key: string, { predictedMs, isLearned, now }: { predictedMs: number; isLearned: boolean; now: number }): void {
    this.#owed.set(key, { dueAt: now + predictedMs, errorMs: predictionErrorMs(predictedMs, isLearned) })
  }

  /** The output came, or the engine owes none any more. */
  settled(key: string): void {
    this.#owed.delete(key)
  }

  /** The client left, or another engine answered. */
  abandoned(key: string, now: number): void {
    const owed = this.#owed.get(key)
    this.#owed.delete(key)
    if (owed === undefined || now <= owed.dueAt + owed.errorMs) return
    if (this.#left === null || owed.dueAt < this.#left.dueAt) this.#left = owed
  }

  /** The engine sent output of any request. */
  moved(): void {
    this.#left = null
  }

  /**
   * Returns since when the engine has been silent although output is overdue; null: nothing is.
   * @param movedAt time of its last output
   */
  overdueSince(movedAt: number, now: number): number | null {
    const oldest = this.#oldest()
    if (oldest === null) return null
    const silentFrom = Math.max(oldest.dueAt, movedAt) + oldest.errorMs
    return now > silentFrom ? silentFrom : null
  }

  /** The oldest request stands for all: engines prefill in order. */
  #oldest(): OwedToken | null {
    if (this.#left !== null) return this.#left
    for (const owed of this.#owed.values()) return owed
    return null
  }
}
