import type { Admission } from '../contract/admission.ts'
import { isPoolFull, type Refusal } from '../contract/refusal.ts'

/** Refusals per second above which edges answer a part themselves. */
export const MAX_REFUSALS_PER_S = 100

/** Time constant of the rate, ms. */
const RATE_MS = 1_000

/** Refusals of one pool per second, including those that edges answered themselves. */
export class RefusalRate {
  #sum = 0
  #at = 0

  add(refusals: number, now: number): void {
    this.#sum = this.perS(now) * (RATE_MS / 1_000) + refusals
    this.#at = now
  }

  /** Counts a refusal, and adds the rate to one that edges may repeat. */
  rated<Placed extends object>(
    answer: Placed | { readonly refusal: Refusal },
    admission: Admission,
    now: number,
  ): Placed | { readonly refusal: Refusal } {
    if (!('refusal' in answer) || !isForLackOfRoom(admission, answer.refusal)) return answer
    this.add(1, now)
    const refusalsPerS = this.perS(now)
    return refusalsPerS <= MAX_REFUSALS_PER_S ? answer : { refusal: { ...answer.refusal, refusalsPerS } }
  }

  perS(now: number): number {
    const decayed = this.#sum * Math.exp(-Math.max(0, now - this.#at) / RATE_MS)
    return (1_000 * decayed) / RATE_MS
  }
}

/** Whether similar requests are likely to be refused too: the pool lacks room, and the request sets no own limit. */
export function isForLackOfRoom({ attempt, ttftDeadlineMs }: Admission, refusal: Refusal): boolean {
  const { limit, mayWait = false, mayPanic = false } = refusal
  if (attempt > 0 || ttftDeadlineMs !== undefined || mayWait || mayPanic) return false
  return isPoolFull(refusal) && limit !== 'deadline' && limit !== 'queue'
}
