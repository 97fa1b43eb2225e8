import { LinkedList, type ListEntry } from '../../linked-list.ts'

/** Delay, ms, within which a first token that is later than predicted is no sign of a fault. */
const MIN_ERROR_MS = 400

/** Further error of a prediction, as a share of it. */
const ERROR_SHARE = 0.5

/** Factor on both while the pace of the engine is not learned. */
const UNLEARNED_FACTOR = 4

/** Prefill from which an engine may be silent for a while, ms. */
const LONG_PREFILL_MS = 1_000

/** Time by which a first output must be overdue for its request to count as lost, ms. Trials show most faults first. */
const LOST_AFTER_MS = 3_000

/** A first output that the engine owes. Times are ms since the epoch. */
export interface OwedToken extends ListEntry<OwedToken> {
  readonly dueAt: number
  readonly predictedMs: number
  readonly prefillMs: number
  readonly beyondMs: number
  /** It was overdue when the engine answered a trial. */
  isExcused: boolean
}

interface PredictedOutput {
  /** From now to the first output. */
  readonly predictedMs: number
  /** Part of it that is the request's own prefill. */
  readonly prefillMs: number
  /** Time by which the prefill may exceed its prediction, because it is longer than all learned from. Absent: none. */
  readonly beyondMs?: number
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

/** A prompt that is longer than those learned from is at most as uncertain as one of an engine without samples. */
function errorMs(predictedMs: number, beyondMs: number, isLearned: boolean): number {
  return Math.min(predictionErrorMs(predictedMs, isLearned) + beyondMs, predictionErrorMs(predictedMs, false))
}

/**
 * First outputs that an engine owes by the gateway's own predictions. No client can move these times: a request that
 * is given up before its time leaves nothing behind, and one that is given up later stays as evidence until the engine
 * moves.
 */
export class OwedTokens {
  /** In the order of their bookings, which hold them. Those that are excused are not in it. */
  readonly #owed = new LinkedList<OwedToken>()
  /** Oldest overdue request whose client has left. */
  #left: OwedToken | null = null

  get size(): number {
    return this.#owed.size
  }

  get hasEvidence(): boolean {
    return this.#left !== null || this.#owed.size > 0
  }

  add({ predictedMs, prefillMs, beyondMs = 0, now }: PredictedOutput): OwedToken {
    const owed: OwedToken = {
      dueAt: now + predictedMs,
      predictedMs,
      prefillMs,
      beyondMs,
      isExcused: false,
      previous: null,
      next: null,
      isListed: false,
    }
    this.#owed.add(owed)
    return owed
  }

  /** Longest prefill of one request that the engine may be at, ms. */
  get longestPrefillMs(): number {
    let longestMs = 0
    for (const { prefillMs } of this.#owed) longestMs = Math.max(longestMs, prefillMs)
    return longestMs
  }

  get hasLongPrefill(): boolean {
    return this.longestPrefillMs >= LONG_PREFILL_MS
  }

  /** The output came, or the engine owes none any more. */
  settled(owed: OwedToken): void {
    this.#owed.delete(owed)
    owed.isExcused = false
  }

  /** The client left, or another engine answered. */
  abandoned(owed: OwedToken, judgement: Judgement): void {
    const isEvidence = owed.isListed && isOverdue(owed, judgement)
    this.settled(owed)
    if (!isEvidence) return
    if (this.#left === null || owed.dueAt < this.#left.dueAt) this.#left = owed
  }

  /** The engine sent output of any request. */
  moved(): void {
    this.#left = null
  }

  /** The engine answered a trial: what is overdue all the same is no evidence. */
  excuse(judgement: Judgement): void {
    this.#left = null
    for (const owed of this.#owed) if (isOverdue(owed, judgement)) owed.isExcused = this.#owed.delete(owed)
  }

  /**
   * Whether this request is long overdue at an engine that answers trials.
   * @param isSilent nothing moves there, and no trial has shown why yet
   */
  isLost(owed: OwedToken, { now, isLearned }: Judgement, isSilent: boolean): boolean {
    const mayBeLost = owed.isExcused || (isSilent && owed.isListed)
    return mayBeLost && isOverdue(owed, { now: now - LOST_AFTER_MS, isLearned })
  }

  /** Returns until when a long prefill may run, by all predictions; -Infinity: none waits. */
  longPrefillUntil(movedAt: number, isLearned: boolean): number {
    let until = -Infinity
    for (const owed of this.#owed)
      if (owed.prefillMs >= LONG_PREFILL_MS)
        until = Math.max(until, overdueAt(owed, isLearned), movedAt + prefillLimitMs(owed))
    return until
  }

  /**
   * Returns since when the engine has been silent although output is overdue; null: nothing is.
   * @param movedAt time of its last output
   */
  overdueSince(movedAt: number, { now, isLearned }: Judgement): number | null {
    const oldest = this.#oldest()
    if (oldest === null) return null
    const ownErrorMs = errorMs(oldest.predictedMs, oldest.beyondMs, isLearned)
    if (now <= Math.max(oldest.dueAt, movedAt) + ownErrorMs) return null
    // Since its last output it may be at the longest prefill, whatever their order is.
    let limitMs = ownErrorMs
    for (const owed of this.#owed) limitMs = Math.max(limitMs, prefillLimitMs(owed))
    const silentFrom = Math.max(oldest.dueAt + ownErrorMs, movedAt + limitMs)
    return now > silentFrom ? silentFrom : null
  }

  /** The oldest request stands for all: engines prefill in order. */
  #oldest(): OwedToken | null {
    return this.#left ?? this.#owed.first
  }
}

/** Longest time that the prefill of a request alone may take, ms. */
const prefillLimitMs = ({ prefillMs, beyondMs }: OwedToken): number => prefillMs + errorMs(prefillMs, beyondMs, true)

const overdueAt = ({ dueAt, predictedMs, beyondMs }: OwedToken, isLearned: boolean): number =>
  dueAt + errorMs(predictedMs, beyondMs, isLearned)

const isOverdue = (owed: OwedToken, { now, isLearned }: Judgement): boolean => now > overdueAt(owed, isLearned)
