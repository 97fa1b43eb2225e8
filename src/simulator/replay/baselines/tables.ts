import { SlidingCount } from '../../../core/cluster/sliding-count.ts'
import { keyAt } from '../serial-engine.ts'
import type { Job } from '../job.ts'

/** Requests in flight by engine, as a router counts them that sees its own traffic only. */
export class InFlight {
  readonly counts: Int32Array

  constructor(engines: number) {
    this.counts = new Int32Array(engines)
  }

  begin(engine: number): void {
    this.counts[engine]! += 1
  }

  end(job: Job): void {
    this.counts[job.engine]! -= 1
  }
}

/** Blocks a router remembers to have sent to one engine, least recently used out first. */
export class SentBlocks {
  readonly #most: number
  readonly #keys = new Set<number>()

  constructor(most: number) {
    this.#most = most
  }

  get size(): number {
    return this.#keys.size
  }

  /** Leading blocks known, of the first `limit`. */
  match(blocks: Uint32Array, limit = Infinity): number {
    const count = Math.min(limit, blocks.length >> 1)
    let at = 0
    while (at < count && this.#keys.has(keyAt(blocks, at))) at += 1
    return at
  }

  /** Remembers a prompt, tail first, so that its head is forgotten last. */
  add(blocks: Uint32Array, limit = Infinity): void {
    for (let at = Math.min(limit, blocks.length >> 1) - 1; at >= 0; at -= 1) {
      const key = keyAt(blocks, at)
      this.#keys.delete(key)
      this.#keys.add(key)
    }
  }

  /** Drops the least recently used beyond what may be kept. */
  trim(): void {
    for (const key of this.#keys) {
      if (this.#keys.size <= this.#most) return
      this.#keys.delete(key)
    }
  }
}

/** Arrivals of the last minute by engine. */
export class Arrivals {
  readonly #counts: SlidingCount[]

  constructor(engines: number) {
    this.#counts = Array.from({ length: engines }, () => new SlidingCount(60_000))
  }

  add(engine: number, now: number): void {
    this.#counts[engine]!.add(now)
  }

  /** The engine with the fewest; the first of equals. */
  least(now: number): number {
    const counts = this.#counts.map((count) => count.count(now))
    return counts.indexOf(Math.min(...counts))
  }
}

export function indexOfLeast(values: ArrayLike<number>): number {
  let best = 0
  for (let at = 1; at < values.length; at += 1) if (values[at]! < values[best]!) best = at
  return best
}
