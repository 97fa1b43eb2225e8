/**
 * Decides which request sends what all requests of a process have queued: one promises to send at a time, and the
 * others leave it to that one. Only the time is shared, because on Workers no promise may pass from one request to
 * another. If the time passes without a message, the request has ended, and the next one promises.
 */
export class Carrier {
  readonly #lateMs: number
  /** Promised time. */
  #at = -Infinity

  /** @param lateMs delay after which a promised message is no longer expected */
  constructor(lateMs: number) {
    this.#lateMs = lateMs
  }

  /** Promises to send at `at`. false: another request sends by then. */
  promises(at: number, now: number): boolean {
    if (now < this.#at + this.#lateMs && this.#at <= at) return false
    this.#at = at
    return true
  }

  /** Puts the promised message off until `at`. */
  postpone(at: number): void {
    this.#at = at
  }

  /** The message is sent now: the next request promises again. */
  sent(): void {
    this.#at = -Infinity
  }
}
