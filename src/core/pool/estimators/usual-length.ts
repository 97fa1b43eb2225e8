/** Half-life, ms: long beside a burst or a long prompt, short beside a change of load. */
const HALF_LIFE_MS = 60_000

/** Mean length of a queue over time, with exponential forgetting. */
export class UsualLength {
  #mean = 0
  #length = 0
  #at = 0

  /** Records that the queue has this length from now on. */
  set(length: number, now: number): void {
    this.#mean = this.mean(now)
    this.#length = length
    this.#at = Math.max(this.#at, now)
  }

  mean(now: number): number {
    const kept = 0.5 ** (Math.max(0, now - this.#at) / HALF_LIFE_MS)
    return kept * this.#mean + (1 - kept) * this.#length
  }
}
