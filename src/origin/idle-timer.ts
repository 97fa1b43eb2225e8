/** Timers of one request, without a timer per chunk. */

/**
 * Fires after `limitMs` without activity while it runs. Activity only records the time; the single timer checks it
 * when it fires, and waits for the rest.
 */
export class IdleTimer {
  readonly #now: () => number
  readonly #limitMs: number
  readonly #onIdle: () => void
  #timer: ReturnType<typeof setTimeout> | null = null
  #since = 0
  #listening = false
  #stopped = false

  constructor(now: () => number, limitMs: number, onIdle: () => void) {
    this.#now = now
    this.#limitMs = limitMs
    this.#onIdle = onIdle
  }

  /** Starts to measure. */
  listen(): void {
    if (this.#stopped || this.#limitMs <= 0) return
    this.#since = this.#now()
    this.#listening = true
    this.#timer ??= setTimeout(() => this.#wake(), this.#limitMs)
  }

  /** Records activity, or the end of the wait. */
  pause(): void {
    this.#listening = false
  }

  stop(): void {
    this.#stopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #wake(): void {
    this.#timer = null
    if (!this.#listening || this.#stopped) return
    const leftMs = this.#limitMs - (this.#now() - this.#since)
    // Clocks that advance only with I/O may lag; one millisecond of tolerance keeps the timer from spinning.
    if (leftMs > 1) this.#timer = setTimeout(() => this.#wake(), leftMs)
    else this.#onIdle()
  }
}
