/** Consecutive failures that open the circuit. */
const FAILURES = 5
const OPEN_MS = 5_000

/**
 * Circuit of an auxiliary service, so that a service that always fails or is late does not use every request's budget.
 */
export class ServiceCircuit {
  #failures = 0
  #openUntil = -Infinity

  /**
   * Returns whether a call may be made. After the pause one call is admitted; its result closes or reopens the
   * circuit.
   */
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
