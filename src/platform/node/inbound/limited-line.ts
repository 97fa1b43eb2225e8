import type { Log } from '../../../ports/log.ts'

const LINE_EVERY_MS = 1_000

/** Logs an event that clients can cause as often as they like: at most one line a second, with the number left out. */
export class LimitedLine {
  readonly #log: Log
  readonly #event: string
  #nextLineAt = -Infinity
  #suppressed = 0

  constructor(log: Log, event: string) {
    this.#log = log
    this.#event = event
  }

  warn(fields: object): void {
    const now = performance.now()
    if (now < this.#nextLineAt) {
      this.#suppressed++
      return
    }
    this.#nextLineAt = now + LINE_EVERY_MS
    this.#log.warn(this.#event, { ...fields, ...(this.#suppressed === 0 ? {} : { suppressed: this.#suppressed }) })
    this.#suppressed = 0
  }
}
