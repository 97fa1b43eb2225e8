/** Length, ms, of a counting interval. */
const SPAN_MS = 60_000

/** Fewest lookups for a warning. */
const LEAST = 20

const SHARE = 0.1

/** Detects that too many lookups time out; reports at most once per interval. @testing */
export class TimeoutRateMonitor {
  #since = -Infinity
  #asked = 0
  #late = 0
  #rung = false

  /** Records the end of a lookup. Returns the counts if a warning is due, else null. */
  ended(late: boolean, now: number): { readonly late: number; readonly of: number } | null {
    if (now - this.#since >= SPAN_MS) {
      this.#since = now
      this.#asked = 0
      this.#late = 0
      this.#rung = false
    }
    this.#asked += 1
    if (late) this.#late += 1
    if (this.#rung || this.#asked < LEAST || this.#late < SHARE * this.#asked) return null
    this.#rung = true
    return { late: this.#late, of: this.#asked }
  }
}
