import { Patience } from '../../origin/patience.ts'
import { WheelTimer } from './wheel-timer.ts'

/** Timer of a limit for another process, which is not at fault for the time in which this process did not run. */
export class PatientTimer extends WheelTimer {
  #limitMs = 0
  /** Extensions of the limit. null: there was none. */
  #patience: Patience | null = null

  /** Begins a limit. */
  limit(ms: number): void {
    this.#limitMs = ms
    this.#patience = null
    this.set(ms)
  }

  /** Call it when the timer has fired. Returns the time for which it waits on, ms; 0: the limit has passed. */
  extend(): number {
    // The timer fires after sockets have been read.
    this.#patience ??= new Patience(this.#limitMs, 0)
    const extensionMs = this.#patience.extensionMs(this.stalledMs)
    if (extensionMs > 0) this.set(extensionMs)
    return extensionMs
  }
}
