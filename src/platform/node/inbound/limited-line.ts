type LogFields = Readonly<Record<string, unknown>>

const LINE_EVERY_MS = 1_000

/** Logs what clients can cause as often as they like: at most one line a second, with the number left out. */
export class LimitedLine {
  readonly #write: (fields: LogFields) => void
  readonly #now: () => number
  #nextLineAt = -Infinity
  #suppressed = 0

  /** @param now monotonic, ms */
  constructor(write: (fields: LogFields) => void, now: () => number = () => performance.now()) {
    this.#write = write
    this.#now = now
  }

  write(fields: LogFields): void {
    const now = this.#now()
    if (now < this.#nextLineAt) {
      this.#suppressed++
      return
    }
    this.#nextLineAt = now + LINE_EVERY_MS
    this.#write({ ...fields, ...(this.#suppressed === 0 ? {} : { suppressed: this.#suppressed }) })
    this.#suppressed = 0
  }
}
