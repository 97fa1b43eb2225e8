import type { RouterKind } from '../router.ts'
import { SlidingCount } from '../../../core/pool/retry-budget.ts'
import { keyAt, type EngineGauges } from '../serial-engine.ts'
import type { Job } from '../trace.ts'

/** Requests in flight by engine, as seen by a router that sees only its own traffic. */
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

/** Blocks that a router has sent to one engine, in LRU order. */
export class SentBlocks {
  readonly #most: number
  readonly #keys = new Set<number>()

  constructor(most: number) {
    this.#most = most
  }

  get size(): number {
    return this.#keys.size
  }

  /** Returns the number of leading known blocks among the first `limit`. */
  match(blocks: Uint32Array, limit = Infinity): number {
    const count = Math.min(limit, blocks.length >> 1)
    let at = 0
    while (at < count && this.#keys.has(keyAt(blocks, at))) at += 1
    return at
  }

  /** Remembers a prompt, tail first, so that its head is evicted last. */
  add(blocks: Uint32Array, limit = Infinity): void {
    for (let at = Math.min(limit, blocks.length >> 1) - 1; at >= 0; at -= 1) {
      const key = keyAt(blocks, at)
      this.#keys.delete(key)
      this.#keys.add(key)
    }
  }

  /** Evicts the least recently used blocks beyond the limit. */
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

  /** Returns the engine with the fewest; the first of equals. */
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

const WEIGHTS = { prefix: 2, queue: 2, kv: 1 } as const
const SCRAPE_MS = 50
/** Approximate prefix scorer: blocks of 16 tokens, at most 256 per prompt, 31,250 remembered per engine. */
const BLOCK_TOKENS = 16
const MATCHED_BLOCKS = 256
const KEPT_BLOCKS = 31_250

/**
 * llm-d's endpoint picker as in its guides: scorers for prefix, queue and KV usage with weights 2:2:1, the highest
 * sum, random among equals; queue and KV usage from a scrape every 50 ms. Its blocks are smaller than those of a
 * trace: the limits are converted.
 */
export const llmD: RouterKind = {
  name: 'llm_d',
  doc: 'Prefix 2, queue 2, KV use 1: scores from 0 to 1, the highest sum.',
  source: 'llm-d inference scheduler, approximate prefix plugin; weights of its guides',
  create({ engines, blockTokens, random }) {
    const scale = BLOCK_TOKENS / blockTokens
    const limit = Math.max(1, Math.floor(MATCHED_BLOCKS * scale))
    const sent = engines.map(() => new SentBlocks(Math.max(1, Math.floor(KEPT_BLOCKS * scale))))
    let gauges: readonly EngineGauges[] = engines.map((engine) => engine.gauges())
    let scrapedAt = -Infinity
    return {
      name: 'llm_d',
      route({ blocks }, now) {
        // Scraped on demand, because the value is not read between requests.
        if (now - scrapedAt >= SCRAPE_MS) {
          gauges = engines.map((engine) => engine.gauges())
          scrapedAt = now
        }
        const scores = scoresOf(
          gauges,
          sent.map((table) => table.match(blocks, limit) / Math.max(1, Math.min(limit, blocks.length >> 1))),
        )
        const best = Math.max(...scores)
        const equals = scores.flatMap((score, at) => (score === best ? [at] : []))
        const engine = equals[Math.floor(random() * equals.length)]!
        sent[engine]!.add(blocks, limit)
        sent[engine]!.trim()
        return { engine }
      },
      firstToken() {},
      ended() {},
    }
  },
}

/** @param matches share of the prompt's blocks that each engine is estimated to have, 0 to 1 */
export function scoresOf(gauges: readonly EngineGauges[], matches: readonly number[]): number[] {
  const queues = gauges.map(({ waiting }) => waiting)
  const longest = Math.max(...queues)
  const shortest = Math.min(...queues)
  return gauges.map(({ waiting, kvUsage }, at) => {
    const queue = longest === shortest ? 1 : (longest - waiting) / (longest - shortest)
    return WEIGHTS.prefix * matches[at]! + WEIGHTS.queue * queue + WEIGHTS.kv * (1 - kvUsage)
  })
}
