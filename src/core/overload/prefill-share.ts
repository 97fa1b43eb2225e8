/** Time constant of the work of prefills, ms. */
export const PREFILL_WINDOW_MS = 40_000

/** Minimum time over which the work of a new engine is averaged, ms: a burst is no load. */
const MIN_WINDOW_MS = 4_000

/**
 * Prefill work of one engine. A prefill delays all decodes of its engine, so the time between tokens is the decode
 * step divided by the share of time that prefills leave.
 */
export class PrefillShare {
  #decayedS = 0
  #at = 0
  #totalS = 0
  /** Time of the first prefill. */
  #since: number | null = null

  /** All work since the start, seconds. */
  get totalS(): number {
    return this.#totalS
  }

  /** @param seconds duration of a prefill; negative: it was given up */
  add(seconds: number, now: number): void {
    this.#since ??= now
    this.#decayedS = Math.max(0, this.#decayed(now) + seconds)
    this.#at = Math.max(this.#at, now)
    this.#totalS += seconds
  }

  /**
   * Share of the engine's time that the latest prefills take; above 1: more than it can do. Of a new engine it is that
   * of the time since its first prefill: over the whole window, an overload would be seen only when its first streams
   * have ended.
   */
  share(now: number): number {
    const sinceMs = Math.max(MIN_WINDOW_MS, now - (this.#since ?? now))
    return (1000 * this.#decayed(now)) / PREFILL_WINDOW_MS / (1 - Math.exp(-sinceMs / PREFILL_WINDOW_MS))
  }

  #decayed(now: number): number {
    return this.#decayedS * Math.exp(-Math.max(0, now - this.#at) / PREFILL_WINDOW_MS)
  }
}
