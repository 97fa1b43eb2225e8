/** Counted in spans of this length. */
const SPAN_MS = 60_000
/** Fewer lookups say nothing. */
const LEAST = 20
const SHARE = 0.1

/** Notices that lookups are given up too often: `true` at most once a span. */
export class LateAlarm {
  #since = -Infinity
  #asked = 0
  #late = 0
  #rung = false

  /** A lookup ended. Is it time to tell somebody? */
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
