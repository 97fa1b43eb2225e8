const SECOND_MS = 1_000

/** Seconds of the window: a minute, and the second that has begun. */
const SECONDS = 61

/**
 * Amounts of the last minute, by second. An amount leaves at least 60 s and less than 61 s after it was added, so that
 * no interval of a minute exceeds a limit on the window.
 */
export class MinuteWindow {
  readonly #amounts = new Float64Array(SECONDS)
  #second = 0
  #used = 0

  used(now: number): number {
    this.#advance(now)
    return this.#used
  }

  /** Changes the amount that was added at `at`. No effect if it has left. */
  add(amount: number, at: number, now: number): void {
    this.#advance(now)
    const second = Math.floor(at / SECOND_MS)
    if (second > this.#second || second <= this.#second - SECONDS) return
    const place = second % SECONDS
    const added = Math.max(amount, -this.#amounts[place]!)
    this.#amounts[place]! += added
    this.#used = Math.max(0, this.#used + added)
  }

  /** Time until at most `most` are used, ms. */
  freeInMs(max: number, now: number): number {
    this.#advance(now)
    let used = this.#used
    for (let second = this.#second - SECONDS + 1; second <= this.#second; second++) {
      if (used <= max) return Math.max(0, (second + SECONDS - 1) * SECOND_MS - now)
      used -= this.#amounts[((second % SECONDS) + SECONDS) % SECONDS]!
    }
    return (this.#second + SECONDS) * SECOND_MS - now
  }

  #advance(now: number): void {
    const second = Math.floor(now / SECOND_MS)
    // A clock that was set back keeps the amounts where they are.
    if (second <= this.#second) return
    if (second - this.#second >= SECONDS) {
      this.#amounts.fill(0)
      this.#used = 0
    } else
      for (let old = this.#second + 1; old <= second; old++) {
        this.#used -= this.#amounts[old % SECONDS]!
        this.#amounts[old % SECONDS] = 0
      }
    this.#second = second
  }
}
