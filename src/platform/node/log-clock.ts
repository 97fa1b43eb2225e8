/** Time of log lines in ISO 8601. Only the milliseconds are formatted per line, the rest once a second. */
export class LogClock {
  readonly #now: () => number
  #second = Number.NaN
  /** `2026-11-28T08:30:57.` */
  #text = ''

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  time(): string {
    const now = this.#now()
    const ms = now % 1000
    if (now - ms !== this.#second) {
      this.#second = now - ms
      this.#text = new Date(now).toISOString().slice(0, -4)
    }
    return `${this.#text}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`
  }
}
