/** Length, ms, of a counting interval. */
const INTERVAL_MS = 60_000

/** Fewest lookups for a warning. */
const MIN_LOOKUPS = 20

const MIN_SHARE = 0.1

/** Detects that too many lookups time out; reports at most once per interval. @testing */
export class TimeoutRateMonitor {
  #since = -Infinity
  #lookups = 0
  #late = 0
  #hasReported = false

  /** Records the end of a lookup. Returns the counts if a warning is due, else null. */
  record(late: boolean, now: number): { readonly late: number; readonly of: number } | null {
    if (now - this.#since >= INTERVAL_MS) {
      this.#since = now
      this.#lookups = 0
      this.#late = 0
      this.#hasReported = false
    }
    this.#lookups += 1
    if (late) this.#late += 1
    if (this.#hasReported || this.#lookups < MIN_LOOKUPS || this.#late < MIN_SHARE * this.#lookups) return null
    this.#hasReported = true
    return { late: this.#late, of: this.#lookups }
  }
}
