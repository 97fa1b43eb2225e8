const FIRST_DELAY_MS = 100

const MAX_DELAY_MS = 10_000

/** A thread that ran this long had a transient fault. */
const STABLE_MS = 30_000

/** Exponential backoff before a restart. */
export class RestartBackoff {
  #next = FIRST_DELAY_MS
  #beganAt: number | null = null

  /** Records that the thread serves. */
  began(now: number): void {
    this.#beganAt = now
  }

  /** Records its exit. Returns the delay before the restart in milliseconds. */
  next(now: number): number {
    if (this.#beganAt !== null && now - this.#beganAt >= STABLE_MS) this.#next = FIRST_DELAY_MS
    this.#beganAt = null
    const wait = this.#next
    this.#next = Math.min(wait * 2, MAX_DELAY_MS)
    return wait
  }
}
