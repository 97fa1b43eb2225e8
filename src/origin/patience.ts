/** Limits of what another process sends. */
import type { Timer, Timers } from '../ports/timers.ts'

/** A timer that fires later than this was held up, ms: this process was stopped or starved. */
const LATE_MS = 100

/** Time to read what has arrived, ms. */
const READ_MS = 20

/** Extensions of a short limit may add up to this, ms: a long garbage collection or a stopped machine outlasts it. */
const MIN_ALLOWANCE_MS = 10_000

/**
 * Decides whether a limit has really passed. A process that was stopped finds its timers due before it reads what
 * arrived meanwhile, and would take another process for silent. So the limit is extended by the time for which this
 * process was late, and has passed only if a timer of that time fires in time. All extensions together double it, or
 * last 10 s if that is longer: a process that is late all the time still gives up.
 */
export class Patience {
  readonly #readMs: number
  #leftMs: number
  #isExtended = false

  /** @param readMs time to read what has arrived, ms. 0: timers fire after sockets have been read */
  constructor(limitMs: number, readMs = READ_MS) {
    this.#readMs = readMs
    this.#leftMs = Math.max(limitMs, MIN_ALLOWANCE_MS)
  }

  /**
   * Time to wait on, ms; 0: the limit has passed.
   * @param lateMs time by which the timer of the limit, or of the last extension, was late
   */
  extensionMs(lateMs: number): number {
    if (lateMs < LATE_MS && (this.#isExtended || this.#readMs === 0)) return 0
    this.#isExtended = true
    const ms = Math.min(Math.max(lateMs, this.#readMs), this.#leftMs)
    this.#leftMs -= ms
    return ms
  }
}

/** Timers for limits of what another process sends. */
export function patientTimers(timers: Timers, now: () => number): Timers {
  return {
    set(limitMs, onDue) {
      let patience: Patience | null = null
      let timer: Timer
      const wait = (ms: number): void => {
        const dueAt = now() + ms
        timer = timers.set(ms, () => {
          const extensionMs = (patience ??= new Patience(limitMs)).extensionMs(now() - dueAt)
          if (extensionMs > 0) wait(extensionMs)
          else onDue()
        })
      }
      wait(limitMs)
      return { cancel: () => timer.cancel() }
    },
  }
}
