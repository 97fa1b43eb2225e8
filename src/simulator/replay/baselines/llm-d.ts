import type { EngineGauges } from '../engines.ts'
import type { RouterKind } from '../router.ts'
import { SlidingCount } from '../../../core/pool/sliding-count.ts'
import { keyAt } from '../serial-engine.ts'
import type { Job } from '../trace.ts'

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

const WEIGHTS = { prefix: 2, queue: 2, kv: 1 } as const
const SCRAPE_MS = 50
/** Approximate prefix scorer: blocks of 16 tokens, at most 256 of a prompt, 31,250 remembered for each engine. */
const BLOCK_TOKENS = 16
const MATCHED_BLOCKS = 256
const KEPT_BLOCKS = 31_250

/**
 * llm-d's endpoint picker as its guides set it up: scorers for prefix, queue and KV use, weights 2:2:1, the highest sum,
 * chance among equals; queue and KV use from a scrape every 50 ms. Its blocks are finer than a trace's: the limits are
 * converted to the trace's.
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
        // Scraped when asked: between two requests nobody looks.
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

/** @param matches share of the prompt's blocks each engine is believed to hold, 0 to 1. */
export function scoresOf(gauges: readonly EngineGauges[], matches: readonly number[]): number[] {
  const queues = gauges.map(({ waiting }) => waiting)
  const longest = Math.max(...queues)
  const shortest = Math.min(...queues)
  return gauges.map(({ waiting, kvUsage }, at) => {
    const queue = longest === shortest ? 1 : (longest - waiting) / (longest - shortest)
    return WEIGHTS.prefix * matches[at]! + WEIGHTS.queue * queue + WEIGHTS.kv * (1 - kvUsage)
  })
}
