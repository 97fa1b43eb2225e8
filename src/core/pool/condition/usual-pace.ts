/** Time constant of the usual pace, ms: a change within it is a change. */
const MEMORY_MS = 60_000

/** Usual pace of one engine while it is well: its own past, with which it is compared when it becomes slow. */
export class UsualPace {
  #seconds: number | null = null
  #at = 0

  /** Seconds of a usual prompt; null: unknown. */
  get seconds(): number | null {
    return this.#seconds
  }

  observe(seconds: number, now: number): void {
    const share = this.#seconds === null ? 1 : Math.min(1, Math.max(0, now - this.#at) / MEMORY_MS)
    this.#seconds = (this.#seconds ?? 0) + share * (seconds - (this.#seconds ?? 0))
    this.#at = now
  }

  /** The engine may be another one now. */
  forget(): void {
    this.#seconds = null
  }
}
