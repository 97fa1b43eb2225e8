/** Time, ms, that an `admit` may take beyond its usual time. */
const ADMIT_BUDGET_MS = 50

/** Increase of the usual time, ms per second, while calls take longer: an overload of some seconds is not usual. */
const USUAL_RISE_MS_PER_S = 5

/**
 * Usual time of an `admit`: the least, which is the network's way. The limit is relative to it, because an object that
 * is far from the Worker is late with every call, and still chooses better than an old digest.
 */
export class AdmitPace {
  #usualMs: number | null = null
  #at = 0

  /** null: no call has been answered. */
  get limitMs(): number | null {
    return this.#usualMs === null ? null : this.#usualMs + ADMIT_BUDGET_MS
  }

  /** Records an answered call; milliseconds since the epoch. */
  record(from: number, now: number): void {
    const tookMs = now - from
    const maxMs = (this.#usualMs ?? Infinity) + (USUAL_RISE_MS_PER_S * (now - this.#at)) / 1000
    this.#usualMs = Math.min(tookMs, maxMs)
    this.#at = now
  }
}
