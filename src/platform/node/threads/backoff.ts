const FIRST_MS = 100
const MOST_MS = 10_000
/** A thread that served this long had a fault of the moment. */
const WELL_MS = 30_000

/** How long to wait before something that ended is started again: soon at first, then twice as long each time. */
export class Backoff {
  #next = FIRST_MS
  #beganAt: number | null = null

  /** It serves. */
  began(now: number): void {
    this.#beganAt = now
  }

  /** It has ended. Milliseconds. */
  next(now: number): number {
    if (this.#beganAt !== null && now - this.#beganAt >= WELL_MS) this.#next = FIRST_MS
    this.#beganAt = null
    const wait = this.#next
    this.#next = Math.min(wait * 2, MOST_MS)
    return wait
  }
}
