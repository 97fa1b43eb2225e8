import type { Timers } from '../ports.ts'

/** Timers of one request, without a timer per chunk. */

/**
 * Fires when nothing was heard for `limitMs` while listening. Hearing something only writes down the time;
 * the one timer looks at it when it goes off and sleeps on.
 */
export class IdleTimer {
  readonly #now: () => number
  readonly #limitMs: number
  readonly #onSilence: () => void
  #timer: ReturnType<typeof setTimeout> | null = null
  #since = 0
  #listening = false
  #stopped = false

  constructor(now: () => number, limitMs: number, onSilence: () => void) {
    this.#now = now
    this.#limitMs = limitMs
    this.#onSilence = onSilence
  }

  /** From now on silence counts. */
  listen(): void {
    if (this.#stopped || this.#limitMs <= 0) return
    this.#since = this.#now()
    this.#listening = true
    this.#timer ??= setTimeout(() => this.#wake(), this.#limitMs)
  }

  /** Something came, or nobody waits for it. */
  heard(): void {
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
    // Clocks that move only with I/O may lag: a millisecond of grace keeps the timer from spinning.
    if (leftMs > 1) this.#timer = setTimeout(() => this.#wake(), leftMs)
    else this.#onSilence()
  }
}

/** Alarms where the platform has no better ones: a timer of the runtime each. */
export const defaultTimers: Timers = {
  set(delayMs, ring) {
    const timer = setTimeout(ring, delayMs)
    return { cancel: () => clearTimeout(timer) }
  },
}
