/** Timers that fire once, never early. A platform may share one clock among many timers. */
export interface Timers {
  set(delayMs: number, callback: () => void): Timer
}

export interface Timer {
  /** Has no effect after the timer has fired. */
  cancel(): void
}
