/** Time constant of the work of prefills, ms. */
export const PREFILL_WINDOW_MS = 40_000

/**
 * Prefill work of one engine. A prefill delays all decodes of its engine, so the time between tokens is the decode
 * step divided by the share of time that prefills leave.
 */
export class PrefillShare {
  #decayedS = 0
  #at = 0
  #totalS = 0

  /** All work since the start, seconds. */
  get totalS(): number {
    return this.#totalS
  }

  /** @param seconds duration of a prefill; negative: it was given up */
  add(seconds: number, now: number): void {
    this.#decayedS = Math.max(0, this.#decayed(now) + seconds)
    this.#at = Math.max(this.#at, now)
    this.#totalS += seconds
  }

  /** Share of the engine's time that the latest prefills take; above 1: more than it can do. */
  share(now: number): number {
    return (1000 * this.#decayed(now)) / PREFILL_WINDOW_MS
  }

  #decayed(now: number): number {
    return this.#decayedS * Math.exp(-Math.max(0, now - this.#at) / PREFILL_WINDOW_MS)
  }
}
