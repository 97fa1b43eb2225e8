/** After this many lookups in a row that gave nothing, nobody waits for the next ones. */
const FAILURES = 5
const OPEN_MS = 5_000

/** Keeps a service that fails or is always late from costing every request its budget. */
export class Breaker {
  #failures = 0
  #openUntil = -Infinity

  /** May it be asked now? When the pause is over one question goes through, and its end decides. */
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
