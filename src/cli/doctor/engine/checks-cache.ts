/** The engine's KV cache against the configuration. */
import type { Findings } from '../finding.ts'
import type { ExpectedEngine } from './expected.ts'
import type { EngineFacts } from './facts.ts'

/** Relative difference up to which capacities count as equal. */
const SAME = 0.1

export function checkCache(facts: EngineFacts, expected: ExpectedEngine | null, found: Findings): void {
  const stats = facts.metrics.scraped?.stats
  if (stats === undefined) return
  if (facts.switches.isSpeechOnly) checkNoPrefixes(stats.prefixCaching, found)
  else
    checkPrefixCaching(stats.prefixCaching, facts.metrics.cacheConfig.get('prefix_caching_hash_algo'), expected, found)
  const { blockTokens, cacheBlocks } = stats
  if (blockTokens === null || cacheBlocks === null) {
    return found.note('cache_size', 'not in its metrics', {
      costs: 'The gateway learns it from the reported cached tokens.',
      next: 'Set cache_blocks of the engine.',
    })
  }
  found.ok(
    'cache_size',
    `${cacheBlocks} blocks of ${blockTokens} tokens: ${(cacheBlocks * blockTokens).toLocaleString('en')} tokens`,
  )
  if (expected !== null) checkSizes({ blockTokens, cacheBlocks }, expected, found)
}

/** Encoder output of audio has no prefixes, and vLLM 0.32 crashes if prefix caching is on. */
function checkNoPrefixes(on: boolean | null, found: Findings): void {
  if (on !== true) return found.ok('prefix_caching', 'off, as required for a speech-to-text model')
  found.warn('prefix_caching', 'on, for a speech-to-text model', {
    costs: 'vLLM 0.32 crashes at the first request ("CrossAttentionManager does not support caching").',
    next: 'Start it with --no-enable-prefix-caching, or without --enable-prefix-caching.',
  })
}

function checkPrefixCaching(
  on: boolean | null,
  algorithm: string | undefined,
  expected: ExpectedEngine | null,
  found: Findings,
): void {
  const configured = expected?.engine.prefixCaching ?? 'auto'
  if (on === null)
    return found.note('prefix_caching', 'not in its metrics', {
      costs: 'The gateway assumes that it is on.',
      next: 'Set prefix_caching of the engine to on or off.',
    })
  if (on && configured === 'off') {
    return found.warn('prefix_caching', 'on, but configured as off', {
      costs: 'Requests are not routed to the engine that has their prefix cached.',
      next: 'Remove prefix_caching: off.',
    })
  }
  if (on) return found.ok('prefix_caching', `on${algorithm === undefined ? '' : `, ${algorithm}`}`)
  if (configured === 'on') {
    return found.problem('prefix_caching', 'off, but configured as on', {
      costs: 'Requests are routed here for a prefix cache that does not exist.',
      next: 'Start it with --enable-prefix-caching, or remove prefix_caching: on.',
    })
  }
  found.warn('prefix_caching', 'off', {
    costs: 'Every turn of a conversation computes its whole prompt again.',
    next: 'Start it with --enable-prefix-caching.',
  })
}

function checkSizes(
  engine: { readonly blockTokens: number; readonly cacheBlocks: number },
  { pool, engine: { cacheBlocks } }: ExpectedEngine,
  found: Findings,
): void {
  const { blockTokens } = engine
  if (pool.blockTokens % blockTokens === 0)
    found.ok('block_tokens', `${pool.blockTokens} in the configuration, a multiple of its ${blockTokens}`)
  else {
    found.warn('block_tokens', `${pool.blockTokens} in the configuration, but it caches ${blockTokens} at a time`, {
      costs: 'The estimate of cached tokens is wrong by up to one block.',
      next: `block_tokens: ${blockTokens >= 64 ? blockTokens : blockTokens * Math.ceil(64 / blockTokens)}`,
    })
  }
  if (cacheBlocks === null) return
  const [configuredTokens, engineTokens] = [cacheBlocks * pool.blockTokens, engine.cacheBlocks * blockTokens]
  if (Math.abs(configuredTokens - engineTokens) > SAME * engineTokens) {
    found.warn(
      'cache_blocks',
      `configured: ${configuredTokens.toLocaleString('en')} tokens, reported: ${engineTokens.toLocaleString('en')}`,
      {
        costs:
          configuredTokens > engineTokens
            ? 'Evicted prompts count as cached.'
            : 'Part of its cache is never used for routing.',
        next: 'Remove cache_blocks: the metrics report it.',
      },
    )
  }
}
