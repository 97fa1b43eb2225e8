import { ChurnMap } from '../../churn-map.ts'

/** Delay, ms, within which a first token that is later than predicted is no sign of a fault. */
const MIN_ERROR_MS = 400

/** Further error of a prediction, as a share of it. */
const ERROR_SHARE = 0.5

/** Factor on both while the pace of the engine is not learned. */
const UNLEARNED_FACTOR = 4

/** Prefill from which an engine may be silent for a while, ms. */
const LONG_PREFILL_MS = 1_000

/** A first output that the engine owes. Times are ms since the epoch. */
interface OwedToken {
  readonly dueAt: number
  readonly predictedMs: number
  readonly prefillMs: number
}

interface Prediction {
  /** From now to the first output. */
  readonly predictedMs: number
  /** Part of it that is the request's own prefill. */
  readonly prefillMs: number
  readonly now: number
}

/** When and how sure a prediction is judged. */
interface Judgement {
  readonly now: number
  /** The pace of the engine or of a sibling is learned by now. */
  readonly isLearned: boolean
}

/** Returns the error of a predicted first output, ms. */
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

  get hasEvidence(): boolean {
    return this.#left !== null || this.#owed.size > 0
  }

  add(key: string, { predictedMs, prefillMs, now }: Prediction): void {
    this.#owed.set(key, { dueAt: now + predictedMs, predictedMs, prefillMs })
  }

  /** Longest prefill of one request that the engine may be at, ms. */
  get longestPrefillMs(): number {
    let longestMs = 0
    for (const { prefillMs } of this.#owed.values()) longestMs = Math.max(longestMs, prefillMs)
    return longestMs
  }

  /** The output came, or the engine owes none any more. */
  settled(key: string): void {
    this.#owed.delete(key)
  }

  /** The client left, or another engine answered. */
  abandoned(key: string, judgement: Judgement): void {
    const owed = this.#owed.get(key)
    this.#owed.delete(key)
    if (owed === undefined || !isOverdue(owed, judgement)) return
    if (this.#left === null || owed.dueAt < this.#left.dueAt) this.#left = owed
  }

  /** The engine sent output of any request. */
  moved(): void {
    this.#left = null
  }

  /** The engine answered a trial: what is overdue all the same is lost, and no evidence. */
  excuse(judgement: Judgement): void {
    this.#left = null
    for (const [key, owed] of this.#owed) if (isOverdue(owed, judgement)) this.#owed.delete(key)
  }

  /** Returns until when a long prefill may run, by all predictions; -Infinity: none waits. */
  longPrefillUntil(movedAt: number, isLearned: boolean): number {
    let until = -Infinity
    for (const { dueAt, predictedMs, prefillMs } of this.#owed.values())
      if (prefillMs >= LONG_PREFILL_MS)
        until = Math.max(until, dueAt + predictionErrorMs(predictedMs, isLearned), movedAt + withError(prefillMs))
    return until
  }

  /**
   * Returns since when the engine has been silent although output is overdue; null: nothing is.
   * @param movedAt time of its last output
   */
  overdueSince(movedAt: number, { now, isLearned }: Judgement): number | null {
    const oldest = this.#oldest()
    if (oldest === null) return null
    const errorMs = predictionErrorMs(oldest.predictedMs, isLearned)
    if (now <= Math.max(oldest.dueAt, movedAt) + errorMs) return null
    // Since its last output it may be at the longest prefill, whatever their order is.
    const prefillMs = withError(this.longestPrefillMs)
    const silentFrom = Math.max(oldest.dueAt + errorMs, movedAt + Math.max(errorMs, prefillMs))
    return now > silentFrom ? silentFrom : null
  }

  /** The oldest request stands for all: engines prefill in order. */
  #oldest(): OwedToken | null {
    if (this.#left !== null) return this.#left
    for (const owed of this.#owed.values()) return owed
    return null
  }
}

const withError = (prefillMs: number): number => prefillMs + predictionErrorMs(prefillMs, true)

const isOverdue = ({ dueAt, predictedMs }: OwedToken, { now, isLearned }: Judgement): boolean =>
  now > dueAt + predictionErrorMs(predictedMs, isLearned)
