import type { EngineGauges } from '../replay-engine.ts'
import type { RouterKind } from '../router.ts'
import { SentBlocks } from './sent-blocks.ts'

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

/** @param matches share of the prompt's blocks that each engine is estimated to have, 0 to 1 @testing */
export function scoresOf(gauges: readonly EngineGauges[], matches: readonly number[]): number[] {
  const queues = gauges.map(({ waiting }) => waiting)
  const longest = Math.max(...queues)
  const shortest = Math.min(...queues)
  return gauges.map(({ waiting, kvUsage }, at) => {
    const queue = longest === shortest ? 1 : (longest - waiting) / (longest - shortest)
    return WEIGHTS.prefix * matches[at]! + WEIGHTS.queue * queue + WEIGHTS.kv * (1 - kvUsage)
  })
}
