import { SlidingCount } from '../../../../../src/core/sliding-count.ts'

/** Arrivals of the last minute by engine. */
export class Arrivals {
  readonly #counts: SlidingCount[]

  constructor(engines: number) {
    this.#counts = Array.from({ length: engines }, () => new SlidingCount(60_000))
  }

  add(engine: number, now: number): void {
    this.#counts[engine]!.add(now)
  }

  /** Returns the engine with the fewest; the first of equals. */
  min(now: number): number {
    const counts = this.#counts.map((count) => count.count(now))
    return counts.indexOf(Math.min(...counts))
  }
}
