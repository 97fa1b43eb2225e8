import type { Alarm, Alarms } from '../../ports.ts'

interface Waiting extends Alarm {
  readonly at: number
  readonly ring: () => void
}

/**
 * All alarms of one request on as few timers as can be: five set and cleared are a twentieth of what a small request costs
 * workerd, and hardly any rings. A clock for several requests is not to be had: on Workers a
 * timer belongs to the request that set it.
 */
export class RequestAlarms implements Alarms {
  readonly #now: () => number
  readonly #alarms = new Set<Waiting>()
  /** When the timer rings that is set; Infinity: none is. */
  #timerAt = Infinity

  /** @param now milliseconds since the epoch */
  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  set(delayMs: number, ring: () => void): Alarm {
    const alarm: Waiting = { at: this.#now() + delayMs, ring, cancel: () => void this.#alarms.delete(alarm) }
    this.#alarms.add(alarm)
    this.#wakeAt(alarm.at, delayMs)
    return alarm
  }

  #wakeAt(at: number, delayMs: number): void {
    if (at >= this.#timerAt) return
    this.#timerAt = at
    // No setTimeout: what it hands out to clear it by costs as much again.
    void scheduler.wait(delayMs).then(() => this.#wake(at))
  }

  #wake(at: number): void {
    // An earlier alarm was set behind this timer's back, and has a timer of its own.
    if (at > this.#timerAt) return
    this.#timerAt = Infinity
    const now = this.#now()
    let next = Infinity
    for (const alarm of this.#alarms) {
      if (alarm.at > now) next = Math.min(next, alarm.at)
      else if (this.#alarms.delete(alarm)) alarm.ring()
    }
    if (next < Infinity) this.#wakeAt(next, next - now)
  }
}
