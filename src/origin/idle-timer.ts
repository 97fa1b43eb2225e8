/** Timers of one request, without a timer per chunk. */
import type { Timer, Timers } from '../ports/timers.ts'

interface Clock {
  readonly now: () => number
  readonly timers: Timers
}

/**
 * Fires after `limitMs` without activity while it runs. Activity only records the time; the single timer checks it
 * when it fires, and waits for the rest.
 */
export class IdleTimer {
  readonly #clock: Clock
  readonly #limitMs: number
  readonly #onIdle: () => void
  #timer: Timer | null = null
  #since = 0
  #listening = false
  #stopped = false

  constructor(clock: Clock, limitMs: number, onIdle: () => void) {
    this.#clock = clock
    this.#limitMs = limitMs
    this.#onIdle = onIdle
  }

  /** Starts to measure. */
  listen(): void {
    if (this.#stopped || this.#limitMs <= 0) return
    this.#since = this.#clock.now()
    this.#listening = true
    this.#timer ??= this.#clock.timers.set(this.#limitMs, () => this.#wake())
  }

  /** Records activity, or the end of the wait. */
  pause(): void {
    this.#listening = false
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    this.#timer = null
  }

  #wake(): void {
    this.#timer = null
    if (!this.#listening || this.#stopped) return
    const leftMs = this.#limitMs - (this.#clock.now() - this.#since)
    // Clocks that advance only with I/O may lag; one millisecond of tolerance keeps the timer from spinning.
    if (leftMs > 1) this.#timer = this.#clock.timers.set(leftMs, () => this.#wake())
    else this.#onIdle()
  }
}
