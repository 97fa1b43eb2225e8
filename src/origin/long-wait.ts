/** Waits of a stream before an engine gets it: one that is long starts the answer to the client, with heartbeats. */
import type { Timer, Timers } from '../ports/timers.ts'

export class LongWait {
  readonly #limitMs: number
  readonly #timers: Timers
  readonly #exceeded = Promise.withResolvers<void>()
  /** The answer to the client has begun. */
  hasBegunAnswer = false
  /** Timer of the last wait. */
  #timer: Timer | null = null

  constructor(limitMs: number, timers: Timers) {
    this.#limitMs = limitMs
    this.#timers = timers
  }

  /** Resolves when a wait has lasted for the limit. */
  get exceeded(): Promise<void> {
    return this.#exceeded.promise
  }

  /** Watches a wait. Its result is that of `wait`. */
  during<Value>(wait: Promise<Value>): Promise<Value> {
    const timer = this.#timers.set(this.#limitMs, () => this.#exceeded.resolve())
    this.#timer = timer
    return wait.finally(() => timer.cancel())
  }

  /** The engine's response headers are here: heartbeats are now those of its answer, with the headers. */
  headIsHere(): void {
    this.#timer?.cancel()
  }
}
