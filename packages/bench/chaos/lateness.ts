/**
 * How late timers of this process are, in which the engines run, too. An error in a time in which they were late by
 * seconds says more about the machine than about the gateway.
 */
const EVERY_MS = 20

export class Lateness {
  /** Worst lateness, ms, by second. */
  readonly #worst = new Map<number, number>()
  readonly #timer: NodeJS.Timeout
  #dueAt = performance.now() + EVERY_MS

  constructor() {
    this.#timer = setInterval(() => this.#note(), EVERY_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Worst lateness between two times of `performance.now()`, ms. */
  between(from: number, to: number): number {
    let worst = 0
    for (const [second, ms] of this.#worst)
      if (second >= secondOf(from) && second <= secondOf(to)) worst = Math.max(worst, ms)
    return Math.round(worst)
  }

  get worst(): number {
    return this.between(0, Infinity)
  }

  #note(): void {
    const now = performance.now()
    const late = now - this.#dueAt
    this.#dueAt = now + EVERY_MS
    const second = secondOf(now)
    if (late > (this.#worst.get(second) ?? 0)) this.#worst.set(second, late)
  }
}

const secondOf = (ms: number): number => Math.floor(ms / 1000)
