/** Accounts that are kept; further ones replace the least recently used. */
const MAX_ACCOUNTS = 4096

/** Work served per account (virtual token counter): of those that wait, the one with the least is next. */
export class FairShares {
  /** Account → work served. Least recently used first. */
  readonly #served = new Map<string, number>()
  /** Counter of the account that was served last. One that comes while none waits starts there. */
  #lastServed = 0

  counter(account: string): number {
    return this.#served.get(account) ?? 0
  }

  charge(account: string, work: number): void {
    this.#lastServed = this.counter(account)
    this.#served.delete(account)
    this.#served.set(account, this.#lastServed + work)
  }

  /** Corrects the work that an account is charged. It starts none for an account that was forgotten. */
  correct(account: string, work: number): void {
    if (!this.#served.has(account)) return
    const served = this.counter(account)
    this.#served.delete(account)
    this.#served.set(account, served + work)
  }

  /**
   * Adds an account that begins to wait. It gets no credit for the time in which it did not wait.
   * @param waiting accounts that wait; it is not among them
   */
  lift(account: string, waiting: ReadonlySet<string>): void {
    let min = waiting.size === 0 ? this.#lastServed : Infinity
    for (const one of waiting) min = Math.min(min, this.counter(one))
    const counter = Math.max(this.counter(account), min)
    this.#served.delete(account)
    this.#served.set(account, counter)
    if (this.#served.size > MAX_ACCOUNTS) this.#forgetOne(account, waiting)
  }

  /** Counters of accounts that wait are needed. */
  #forgetOne(newest: string, waiting: ReadonlySet<string>): void {
    for (const one of this.#served.keys()) {
      if (one === newest || waiting.has(one)) continue
      this.#served.delete(one)
      return
    }
  }
}
