import { type BudgetCharge, type BudgetUse, charged } from './budget.ts'

/** Below so many accounts none is dropped. */
const MIN_SWEEP_ACCOUNTS = 1_000

/** Exact use of budgets, by account. */
export class BudgetCounter {
  readonly #accounts = new Map<string, BudgetUse>()
  #sweepAt = MIN_SWEEP_ACCOUNTS

  get size(): number {
    return this.#accounts.size
  }

  /** Adds amounts to an account and returns its use. */
  charge({ key, ...amounts }: BudgetCharge, now: number): BudgetUse {
    const use = charged(this.#accounts.get(key) ?? null, amounts, now)
    if (amounts.tokens + amounts.engineS + amounts.money > 0 || this.#accounts.has(key)) this.#accounts.set(key, use)
    if (this.#accounts.size >= this.#sweepAt) this.#sweep(use.month)
    return use
  }

  restore(key: string, use: BudgetUse): void {
    this.#accounts.set(key, use)
  }

  /** Names may come from tokens of an identity provider, so there may be any number of them over time. */
  #sweep(month: number): void {
    for (const [key, use] of this.#accounts) if (use.month < month) this.#accounts.delete(key)
    this.#sweepAt = Math.max(MIN_SWEEP_ACCOUNTS, 2 * this.#accounts.size)
  }
}
