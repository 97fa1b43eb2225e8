/** What it says of its KV cache, and whether the configuration believes the same. */
import { inShort } from '../ask.ts'
import type { Findings } from '../finding.ts'
import type { Expected } from './checks-basic.ts'
import type { EngineFacts } from './facts.ts'

/** Capacities this close are the same. */
const SAME = 0.1

export function checkMetrics({ metrics }: EngineFacts, found: Findings): boolean {
  const { asked, scraped } = metrics
  if (scraped !== null) {
    const { running, waiting } = scraped.stats
    found.ok('metrics', `/metrics read: ${running} running, ${waiting} waiting`)
    return true
  }
  found.warn('metrics', `/metrics tells nothing of a queue (${inShort(asked)})`, {
    costs: 'Its cache’s size, its sleep and what others send it are not known; the gateway goes by its own books alone.',
    next: 'vLLM shows them unless it was started with --disable-log-stats; a proxy may hide the route.',
  })
  return false
}

export function checkCache(facts: EngineFacts, expected: Expected | null, found: Findings): void {
  const stats = facts.metrics.scraped?.stats
  if (stats === undefined) return
  if (facts.switches.onlyHears) checkNoPrefixes(stats.prefixCaching, found)
  else checkPrefixCaching(stats.prefixCaching, facts.metrics.cacheConfig.get('prefix_caching_hash_algo'), expected, found)
  const { blockTokens, cacheBlocks } = stats
  if (blockTokens === null || cacheBlocks === null) {
    return found.note('cache_size', 'not in its metrics', { costs: 'It is learned from what it reports as cached.', next: 'cache_blocks of the engine says it at once.' })
  }
  found.ok('cache_size', `${cacheBlocks} blocks of ${blockTokens} tokens: ${(cacheBlocks * blockTokens).toLocaleString('en')} tokens`)
  if (expected !== null) checkSizes({ blockTokens, cacheBlocks }, expected, found)
}

/** What an encoder made of the sound has no prefixes, and vLLM 0.32 ends where it looks for some. */
function checkNoPrefixes(on: boolean | null, found: Findings): void {
  if (on !== true) return found.ok('prefix_caching', 'off, as it has to be for a model that only hears')
  found.warn('prefix_caching', 'on, for a model that only hears', { costs: 'vLLM 0.32 ends at the first request ("CrossAttentionManager does not support caching").', next: 'Start it with --no-enable-prefix-caching, or without a word of it.' })
}

function checkPrefixCaching(on: boolean | null, algorithm: string | undefined, expected: Expected | null, found: Findings): void {
  const configured = expected?.engine.prefixCaching ?? 'auto'
  if (on === null) return found.note('prefix_caching', 'not in its metrics', { costs: 'It is believed to be on.', next: 'prefix_caching of the engine: on or off.' })
  if (on && configured === 'off') {
    return found.warn('prefix_caching', 'on, but the configuration says off', { costs: 'Prompts are not sent to where their beginning is cached.', next: 'Remove prefix_caching: off.' })
  }
  if (on) return found.ok('prefix_caching', `on${algorithm === undefined ? '' : `, ${algorithm}`}`)
  if (configured === 'on') {
    return found.problem('prefix_caching', 'off, but the configuration says on', { costs: 'Prompts are sent here for a cache that is not kept.', next: 'Start it with --enable-prefix-caching, or remove prefix_caching: on.' })
  }
  found.warn('prefix_caching', 'off', { costs: 'Every turn of a conversation computes its whole prompt again.', next: 'Start it with --enable-prefix-caching.' })
}

function checkSizes(engine: { readonly blockTokens: number; readonly cacheBlocks: number }, { pool, engine: { cacheBlocks } }: Expected, found: Findings): void {
  const { blockTokens } = engine
  if (pool.blockTokens % blockTokens === 0) found.ok('block_tokens', `${pool.blockTokens} in the configuration, a multiple of its ${blockTokens}`)
  else {
    found.warn('block_tokens', `${pool.blockTokens} in the configuration, but it caches ${blockTokens} at a time`, {
      costs: 'What it has cached is guessed up to a block wrong.',
      next: `block_tokens: ${blockTokens >= 64 ? blockTokens : blockTokens * Math.ceil(64 / blockTokens)}`,
    })
  }
  if (cacheBlocks === null) return
  const [told, has] = [cacheBlocks * pool.blockTokens, engine.cacheBlocks * blockTokens]
  if (Math.abs(told - has) > SAME * has) {
    found.warn('cache_blocks', `the configuration says ${told.toLocaleString('en')} tokens, it has ${has.toLocaleString('en')}`, {
      costs: told > has ? 'Prompts are believed cached that were evicted long ago.' : 'Part of its cache is never counted on.',
      next: 'Remove cache_blocks: its metrics say it.',
    })
  }
}
