/** Calls that fail in a row until the circuit opens. */
const FAILURES = 5
const OPEN_MS = 5_000

/** Circuit of a side service: one that always fails or is always late must not cost every request its whole budget. */
export class Breaker {
  #failures = 0
  #openUntil = -Infinity

  /** Whether a call may be made now. After the pause one call is admitted, and its result decides. */
  admits(now: number): boolean {
    if (this.#failures < FAILURES) return true
    if (now < this.#openUntil) return false
    this.#openUntil = now + OPEN_MS
    return true
  }

  succeeded(): void {
    this.#failures = 0
  }

  failed(now: number): void {
    this.#failures += 1
    if (this.#failures >= FAILURES) this.#openUntil = now + OPEN_MS
  }

  isOpen(now: number): boolean {
    return this.#failures >= FAILURES && now < this.#openUntil
  }
}
