import type { BudgetCharge, BudgetUse } from '../../../core/budgets/budget.ts'
import type { LimitAnswer, LimitedRequest, Settlement } from '../../../core/limits/key-limits.ts'
import type { Limiter } from '../../../ports/limiter.ts'

/** Limits per key for the threads. Reservations of a thread that has exited end with it. */
export class LimitHost {
  readonly #limiter: Limiter
  /** Thread → request id → key. */
  readonly #open = new Map<number, Map<string, string>>()

  constructor(limiter: Limiter) {
    this.#limiter = limiter
  }

  async reserve(from: number, request: LimitedRequest): Promise<LimitAnswer> {
    const answer = await this.#limiter.reserve(request)
    if (answer.exceeded === null) this.#openOf(from).set(request.id, request.key)
    return answer
  }

  async charge(charge: BudgetCharge): Promise<BudgetUse> {
    return this.#limiter.charge(charge)
  }

  settle(from: number, settlement: Settlement): Promise<void> | void {
    this.#openOf(from).delete(settlement.id)
    return this.#limiter.settle(settlement)
  }

  /** Ends the reservations of a thread; their tokens stay at the estimate. */
  exited(thread: number): void {
    for (const [id, key] of this.#openOf(thread)) void this.#limiter.settle({ key, id, tokens: null })
    this.#open.delete(thread)
  }

  #openOf(thread: number): Map<string, string> {
    const known = this.#open.get(thread) ?? new Map<string, string>()
    this.#open.set(thread, known)
    return known
  }
}
