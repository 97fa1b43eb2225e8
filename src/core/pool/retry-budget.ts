import { SlidingCount } from '../sliding-count.ts'

const WINDOW_MS = 10_000

/**
 * Retry budget: a share of recent requests plus a minimum per second, over ten seconds. It limits the load on a
 * failing fleet, and a quiet pool can still retry. After tower's retry budget (tower/src/retry/budget). Hedges get what
 * retries leave: a retry saves a request, a hedge only time. Share and minimum are the pool's `retry` keys, whose
 * defaults are in config/pool-schema.ts.
 */
export class RetryBudget {
  readonly #requests = new SlidingCount(WINDOW_MS)
  readonly #retries = new SlidingCount(WINDOW_MS)
  readonly #hedges = new SlidingCount(WINDOW_MS)

  /** Share of the minimum per second, 0..1: less than 1 if several processes send requests. */
  fraction = 1

  request(now: number): void {
    this.#requests.add(now)
  }

  retry(now: number, hedge = false): void {
    const count = hedge ? this.#hedges : this.#retries
    count.add(now)
  }

  /** Number of requests in the window of ten seconds. */
  recent(now: number): number {
    return this.#requests.count(now)
  }

  /** Whether one more retry or hedge is allowed. `share` is of first attempts; `minPerS` is per second. */
  allows(now: number, settings: { readonly share: number; readonly minPerS: number }, hedge = false): boolean {
    const allowed = settings.share * this.#requests.count(now) + (this.fraction * settings.minPerS * WINDOW_MS) / 1000
    return this.#retries.count(now) + (hedge ? this.#hedges.count(now) : 0) + 1 <= allowed
  }
}
