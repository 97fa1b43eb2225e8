import { SlidingCount } from './sliding-count.ts'

const WINDOW_MS = 10_000

/**
 * Retries as a share of recent requests plus a floor, over ten seconds: a broken fleet is not hit twice as hard, and
 * a quiet pool can retry at all. After tower's retry budget (tower/src/retry/budget).
 */
export class RetryBudget {
  readonly #requests = new SlidingCount(WINDOW_MS)
  readonly #retries = new SlidingCount(WINDOW_MS)

  request(now: number): void {
    this.#requests.add(now)
  }

  retry(now: number): void {
    this.#retries.add(now)
  }

  /** May one more retry be made? `share` is of first attempts; `minPerS` is per second. */
  allows(now: number, settings: { readonly share: number; readonly minPerS: number }): boolean {
    const allowed = settings.share * this.#requests.count(now) + (settings.minPerS * WINDOW_MS) / 1000
    return this.#retries.count(now) + 1 <= allowed
  }
}
