/** Checks of features that give the gateway more information. Each one is a flag of `vllm serve`. */
import { IDLE_MS } from '../../../platform/node/http1-client/origin.ts'
import type { Findings } from '../finding.ts'
import { REQUEST_ID, inShort } from '../ask.ts'
import type { Expected } from './checks-basic.ts'
import { inDevMode, type EngineFacts } from './facts.ts'
import { isAway } from './read.ts'

/* The engine's KV cache against the configuration. */

/** Relative difference up to which capacities count as equal. */
const SAME = 0.1

export function checkMetrics({ metrics }: EngineFacts, found: Findings): boolean {
  const { asked, scraped } = metrics
  if (scraped !== null) {
    const { running, waiting } = scraped.stats
    found.ok('metrics', `/metrics read: ${running} running, ${waiting} waiting`)
    return true
  }
  found.warn('metrics', `/metrics tells nothing of a queue (${inShort(asked)})`, {
    costs:
      'Its cache’s size, its sleep and what others send it are not known; the gateway goes by its own books alone.',
    next: 'vLLM shows them unless it was started with --disable-log-stats; a proxy may hide the route.',
  })
  return false
}

export function checkCache(facts: EngineFacts, expected: Expected | null, found: Findings): void {
  const stats = facts.metrics.scraped?.stats
  if (stats === undefined) return
  if (facts.switches.onlyHears) checkNoPrefixes(stats.prefixCaching, found)
  else
    checkPrefixCaching(stats.prefixCaching, facts.metrics.cacheConfig.get('prefix_caching_hash_algo'), expected, found)
  const { blockTokens, cacheBlocks } = stats
  if (blockTokens === null || cacheBlocks === null) {
    return found.note('cache_size', 'not in its metrics', {
      costs: 'It is learned from what it reports as cached.',
      next: 'cache_blocks of the engine says it at once.',
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
  if (on !== true) return found.ok('prefix_caching', 'off, as it has to be for a model that only hears')
  found.warn('prefix_caching', 'on, for a model that only hears', {
    costs: 'vLLM 0.32 ends at the first request ("CrossAttentionManager does not support caching").',
    next: 'Start it with --no-enable-prefix-caching, or without a word of it.',
  })
}

function checkPrefixCaching(
  on: boolean | null,
  algorithm: string | undefined,
  expected: Expected | null,
  found: Findings,
): void {
  const configured = expected?.engine.prefixCaching ?? 'auto'
  if (on === null)
    return found.note('prefix_caching', 'not in its metrics', {
      costs: 'It is believed to be on.',
      next: 'prefix_caching of the engine: on or off.',
    })
  if (on && configured === 'off') {
    return found.warn('prefix_caching', 'on, but the configuration says off', {
      costs: 'Prompts are not sent to where their beginning is cached.',
      next: 'Remove prefix_caching: off.',
    })
  }
  if (on) return found.ok('prefix_caching', `on${algorithm === undefined ? '' : `, ${algorithm}`}`)
  if (configured === 'on') {
    return found.problem('prefix_caching', 'off, but the configuration says on', {
      costs: 'Prompts are sent here for a cache that is not kept.',
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
  { pool, engine: { cacheBlocks } }: Expected,
  found: Findings,
): void {
  const { blockTokens } = engine
  if (pool.blockTokens % blockTokens === 0)
    found.ok('block_tokens', `${pool.blockTokens} in the configuration, a multiple of its ${blockTokens}`)
  else {
    found.warn('block_tokens', `${pool.blockTokens} in the configuration, but it caches ${blockTokens} at a time`, {
      costs: 'What it has cached is guessed up to a block wrong.',
      next: `block_tokens: ${blockTokens >= 64 ? blockTokens : blockTokens * Math.ceil(64 / blockTokens)}`,
    })
  }
  if (cacheBlocks === null) return
  const [told, has] = [cacheBlocks * pool.blockTokens, engine.cacheBlocks * blockTokens]
  if (Math.abs(told - has) > SAME * has) {
    found.warn(
      'cache_blocks',
      `the configuration says ${told.toLocaleString('en')} tokens, it has ${has.toLocaleString('en')}`,
      {
        costs:
          told > has
            ? 'Prompts are believed cached that were evicted long ago.'
            : 'Part of its cache is never counted on.',
        next: 'Remove cache_blocks: its metrics say it.',
      },
    )
  }
}

export function checkAnswers(facts: EngineFacts, expected: Expected | null, found: Findings): void {
  const { generated } = facts
  if (generated === null) {
    const why = isAway(facts.switches, facts.metrics) ? 'not asked for: it would hang' : 'not asked for'
    return found.note('completion', why, { costs: 'Whether it answers, and counts cached tokens, is not known.' })
  }
  if (generated.kind === 'failed') {
    return found.problem('completion', `one token could not be had: ${generated.why}`, {
      costs: 'Clients get the same.',
      next: 'See its log. --timeout-s waits longer.',
    })
  }
  if (generated.kind === 'no_route') {
    if (expected?.engine.role === 'encode') return found.ok('completion', 'none: it encodes')
    if (facts.switches.onlyHears) return found.ok('completion', 'none: it hears (/v1/audio/transcriptions)')
    return found.note('completion', 'it has neither completions nor chats: a model for embeddings, scores or ranks')
  }
  found.ok('completion', `one token in ${generated.tookMs.toFixed(0)} ms`)
  if (generated.cachedTokens === null) {
    found.warn('cached_tokens', 'not reported', {
      costs: 'What was believed cached is never checked, so evictions and restarts are learned late or not at all.',
      next: 'vllm serve … --enable-prompt-tokens-details',
    })
  } else found.ok('cached_tokens', `reported (${generated.cachedTokens} of ${generated.promptTokens ?? '?'})`)
  if (generated.perRequestMetrics) found.ok('per_request_metrics', 'in its answers')
  else {
    found.note('per_request_metrics', 'not in its answers', {
      costs: 'Reports before the first token (docs/ttft.md) lack its own queue and prefill times.',
      next: 'vllm serve … --enable-per-request-metrics',
    })
  }
}

export function checkRequestIds({ health, tokens }: EngineFacts, found: Findings): void {
  const echoed = [health, tokens.asked].some(
    (asked) => 'headers' in asked && asked.headers['x-request-id'] === REQUEST_ID,
  )
  if (echoed) return found.ok('request_ids', 'it takes the client’s x-request-id')
  found.note('request_ids', 'it makes up its own', {
    costs: 'Its log and its reports cannot be matched with the gateway’s requests.',
    next: 'vllm serve … --enable-request-id-headers',
  })
}

export function checkEvents({ events, switches }: EngineFacts, found: Findings): void {
  const on = events?.filter(({ enabled }) => enabled) ?? []
  // KV events describe prefixes, and this model has none.
  if (switches.onlyHears && on.length === 0) return
  if (events === null) {
    return found.note('kv_events', 'it does not say (/kv_event_sources is missing)', {
      next: 'firstlight bridge tries its sockets, where they are known.',
    })
  }
  if (on.length === 0) {
    return found.note('kv_events', 'not published', {
      costs: 'Which prefixes it holds is predicted and corrected by its answers, not known.',
      next: `vllm serve … --kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://127.0.0.1:5557","replay_endpoint":"tcp://127.0.0.1:5558"}'`,
    })
  }
  const missing = on.filter(({ replayEndpoint }) => replayEndpoint === null)
  found.ok(
    'kv_events',
    on
      .map(
        ({ endpoint, replayEndpoint }) => `${endpoint}${replayEndpoint === null ? '' : `, replay ${replayEndpoint}`}`,
      )
      .join('; '),
  )
  if (missing.length > 0) {
    found.note('kv_replay', 'no replay socket', {
      costs: 'Events that were missed are lost, and the index is flushed.',
      next: '"replay_endpoint":"tcp://127.0.0.1:5558" in --kv-events-config',
    })
  }
}

export function checkTokenize({ tokens, switches }: EngineFacts, expected: Expected | null, found: Findings): void {
  if (tokens.ids !== null)
    return found.ok(
      'tokenize',
      `ids${tokens.strings ? ' and texts' : ''}${tokens.chat === null ? '; the sample chat was refused' : ', of chats too'}`,
    )
  const needed = expected?.pool.tokenizer === null
  const remedy = {
    costs: 'Prompts are counted from bytes unless the pool has a vocabulary; LMCache lookups need ids.',
    next: 'firstlight vocab compile MODEL_FOLDER -o model.vocab, and `tokenizer: model.vocab` in the pool.',
  }
  if (needed && expected.pool.lmcache !== null)
    found.warn('tokenize', 'there is no /tokenize, and the pool has no vocabulary', remedy)
  else if (switches.sleeping !== true) found.note('tokenize', 'there is no /tokenize', remedy)
}

export function checkLimits({ info, metrics }: EngineFacts, expected: Expected | null, found: Findings): void {
  const limits =
    info === null
      ? []
      : [
          info.maxQueuedRequests === null ? '' : `${info.maxQueuedRequests} requests`,
          info.maxQueuedTokens === null ? '' : `${info.maxQueuedTokens} queued tokens`,
        ].filter((one) => one !== '')
  if (limits.length > 0) return found.ok('admission_limits', `it refuses beyond ${limits.join(' or ')}`)
  if ((metrics.rejections ?? 0) > 0)
    return found.ok('admission_limits', `it has refused ${metrics.rejections} requests`)
  const limit = expected?.engine.maxInFlight ?? null
  if (limit !== null) return found.ok('admission_limits', `the gateway gives it ${limit} requests at most`)
  found.note('admission_limits', info === null ? 'not visible from outside' : 'none', {
    costs: 'Without one a burst queues in it where the gateway could have gone elsewhere.',
    next: 'vllm serve … --max-num-queued-reqs N (running and waiting), or max_in_flight in the configuration.',
  })
}

export function checkSleepMode({ info, switches }: EngineFacts, found: Findings): void {
  if (!inDevMode(switches)) return
  found.ok(
    'sleep_mode',
    info?.sleepMode === true ? 'sleep and pause, which the gateway follows' : 'pause only, which the gateway follows',
  )
}

/** Determines the role in disaggregated serving, as far as the engine shows it. */
export function checkRole({ info, metrics }: EngineFacts, expected: Expected | null, found: Findings): void {
  const shown = info?.transfer ?? null
  const connectors =
    shown === null ? metrics.connectors : [`${shown.connector}${shown.role === null ? '' : ` as ${shown.role}`}`]
  const role = expected?.engine.role ?? 'any'
  if (role !== 'prefill' && role !== 'decode') {
    if (connectors.length > 0) found.ok('kv_transfer', connectors.join(', '))
    return
  }
  const wrong = role === 'prefill' ? 'kv_consumer' : 'kv_producer'
  if (shown?.role === wrong) {
    return found.problem('kv_transfer', `${connectors[0]}, but the configuration gives it the role ${role}`, {
      costs: 'The cache is never handed over.',
      next: `Start it with "kv_role":"${role === 'prefill' ? 'kv_producer' : 'kv_consumer'}", or swap the roles.`,
    })
  }
  if (connectors.length > 0) return found.ok('kv_transfer', `${connectors.join(', ')}, role ${role}`)
  const remedy = {
    costs: 'The decode engine computes the prompt again.',
    next: `vllm serve … --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"${role === 'prefill' ? 'kv_producer' : 'kv_consumer'}"}'`,
  }
  if (info === null) found.note('kv_transfer', `no connector shows, but its role is ${role}`, remedy)
  else found.problem('kv_transfer', `it has no connector, but its role is ${role}`, remedy)
}

export function checkKeepAlive({ idle }: EngineFacts, found: Findings): void {
  if (idle === null) return
  const ours = `${IDLE_MS / 1000} s`
  if ('openAfterMs' in idle)
    return found.ok(
      'keep_alive',
      `an idle connection lives longer than ${(idle.openAfterMs / 1000).toFixed(0)} s; the gateway drops its own after ${ours}`,
    )
  const { closedAfterMs } = idle
  const seconds = `${(closedAfterMs / 1000).toFixed(1)} s`
  if (closedAfterMs > IDLE_MS)
    return found.ok('keep_alive', `idle connections live ${seconds}; the gateway drops its own after ${ours}`)
  const remedy = {
    costs: 'Requests meet connections that are being closed and have to be sent again, or open one each.',
    next: 'VLLM_HTTP_TIMEOUT_KEEP_ALIVE=5 or more (seconds); for a proxy in front, its keep-alive timeout.',
  }
  found.warn(
    'keep_alive',
    closedAfterMs === 0
      ? 'every answer ends its connection'
      : `idle connections live only ${seconds}, less than the gateway’s ${ours}`,
    remedy,
  )
}
