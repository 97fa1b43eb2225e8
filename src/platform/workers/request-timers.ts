import type { Timer, Timers } from '../../ports/timers.ts'

interface PendingTimer extends Timer {
  readonly at: number
  readonly onDue: () => void
}

/**
 * All timers of one request on as few timers of the platform as possible: setting and clearing five takes a
 * twentieth of the CPU of a small request in workerd, and hardly any fires. Requests cannot share a timer, because on
 * Workers it belongs to the request that set it.
 */
export class RequestTimers implements Timers {
  readonly #now: () => number
  readonly #timers = new Set<PendingTimer>()
  /** Time at which the timer fires. Infinity: no timer is set. */
  #timerAt = Infinity

  /** @param now milliseconds since the epoch */
  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  set(delayMs: number, onDue: () => void): Timer {
    const timer: PendingTimer = { at: this.#now() + delayMs, onDue, cancel: () => void this.#timers.delete(timer) }
    this.#timers.add(timer)
    this.#wakeAt(timer.at, delayMs)
    return timer
  }

  #wakeAt(at: number, delayMs: number): void {
    if (at >= this.#timerAt) return
    this.#timerAt = at
    // The handle that setTimeout returns for clearing costs as much again.
    void scheduler.wait(delayMs).then(() => this.#wake(at))
  }

  #wake(at: number): void {
    // An earlier timer was set after this one, and has a platform timer of its own.
    if (at > this.#timerAt) return
    this.#timerAt = Infinity
    const now = this.#now()
    let next = Infinity
    for (const timer of this.#timers) {
      if (timer.at > now) next = Math.min(next, timer.at)
      else if (this.#timers.delete(timer)) timer.onDue()
    }
    if (next < Infinity) this.#wakeAt(next, next - now)
  }
}
