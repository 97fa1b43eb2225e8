/** Checks of features that give the gateway more information. Each one is a setting of the server. */
import { guideOf } from '../../../engines/engine-guides.ts'
import type { Inspection } from '../../../engines/inspection.ts'
import { IDLE_MS } from '../../../platform/node/http1/origin.ts'
import { REQUEST_ID, summaryOf } from '../ask.ts'
import type { Findings } from '../finding.ts'
import type { ExpectedEngine } from './expected.ts'
import { type EngineFacts, inDevMode } from './facts.ts'
import { isAway } from './read.ts'
import { cachedTokensNext, metricsNext } from './server-advice.ts'

export function checkMetrics(facts: EngineFacts, found: Findings): boolean {
  const { result, scraped } = facts.metrics
  if (scraped !== null) {
    const { running, waiting } = scraped.stats
    found.ok('metrics', `/metrics read: ${running} running, ${waiting} waiting`)
    return true
  }
  found.warn('metrics', `/metrics has no queue length (${summaryOf(result)})`, {
    costs: 'Cache size, sleep state and load from other sources are unknown; the gateway uses only its own bookings.',
    next: metricsNext(facts),
  })
  return false
}

export function checkAnswers(facts: EngineFacts, expected: ExpectedEngine | null, found: Findings): void {
  const { generated } = facts
  if (generated === null) {
    const why = isAway(facts.switches, facts.metrics) ? 'skipped: the request would hang' : 'skipped'
    return found.note('completion', why, { costs: 'It is unknown whether it answers and reports cached tokens.' })
  }
  if (generated.kind === 'failed') {
    return found.problem('completion', `a completion of one token failed: ${generated.why}`, {
      costs: 'Client requests fail in the same way.',
      next: 'See its log, or raise --timeout-s.',
    })
  }
  if (generated.kind === 'no_route') {
    if (expected?.engine.role === 'encode') return found.ok('completion', 'none: its role is encode')
    if (facts.switches.isSpeechOnly)
      return found.ok('completion', 'none: it transcribes audio (/v1/audio/transcriptions)')
    return found.note('completion', 'neither completions nor chats: a model for embeddings, scores or ranking')
  }
  found.ok('completion', `one token in ${generated.tookMs.toFixed(0)} ms`)
  if (generated.cachedTokens === null) {
    found.warn('cached_tokens', 'not reported', {
      costs: 'The gateway cannot verify its cache estimate and detects evictions and restarts late or not at all.',
      next: cachedTokensNext(facts),
    })
  } else found.ok('cached_tokens', `reported (${generated.cachedTokens} of ${generated.promptTokens ?? '?'})`)
  const { inspection } = guideOf(facts.type)
  if (inspection === null) return
  if (generated.perRequestMetrics) found.ok('per_request_metrics', 'in responses')
  else {
    found.note('per_request_metrics', 'not in responses', {
      costs: 'Reports before the first token (docs/ttft.md) lack its own queue and prefill times.',
      next: inspection.next.requestMetrics,
    })
  }
}

export function checkRequestIds({ health, tokens }: EngineFacts, { next }: Inspection, found: Findings): void {
  const echoed = [health, tokens.result].some(
    (result) => 'headers' in result && result.headers['x-request-id'] === REQUEST_ID,
  )
  if (echoed) return found.ok('request_ids', 'the client’s x-request-id is used')
  found.note('request_ids', 'the client’s x-request-id is ignored', {
    costs: 'Its logs and reports cannot be matched with the gateway’s requests.',
    next: next.requestIds,
  })
}

export function checkEvents({ events, switches }: EngineFacts, { next }: Inspection, found: Findings): void {
  const on = events?.filter(({ enabled }) => enabled) ?? []
  // KV events describe prefixes, and this model has none.
  if (switches.isSpeechOnly && on.length === 0) return
  if (events === null) {
    return found.note('kv_events', 'unknown (/kv_event_sources is missing)', {
      next: 'firstlight bridge uses the configured sockets.',
    })
  }
  if (on.length === 0) {
    return found.note('kv_events', 'not published', {
      costs: 'Its cached prefixes are estimates, corrected by responses.',
      next: next.kvEvents,
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
      costs: 'Missed events are lost, and the index of this engine is flushed.',
      next: '"replay_endpoint":"tcp://127.0.0.1:5558" in --kv-events-config',
    })
  }
}

export function checkTokenize(
  { tokens, switches }: EngineFacts,
  expected: ExpectedEngine | null,
  found: Findings,
): void {
  if (tokens.ids !== null) {
    const chat = tokens.chat === null ? '; the sample chat was rejected' : ', of chats too'
    return found.ok('tokenize', `ids${tokens.strings ? ' and texts' : ''}${chat}`)
  }
  const needed = expected?.pool.tokenizer === null
  const remedy = {
    costs: 'Prompts are measured in bytes unless the pool has a vocabulary; LMCache lookups need token ids.',
    next: 'firstlight vocab compile MODEL_FOLDER -o model.vocab, and `tokenizer: model.vocab` in the pool.',
  }
  if (needed && expected.pool.lmcache !== null)
    found.warn('tokenize', 'there is no /tokenize, and the pool has no vocabulary', remedy)
  else if (switches.sleeping !== true) found.note('tokenize', 'there is no /tokenize', remedy)
}

export function checkLimits(
  { info, metrics }: EngineFacts,
  { next }: Inspection,
  expected: ExpectedEngine | null,
  found: Findings,
): void {
  const limits =
    info === null
      ? []
      : [
          info.maxQueuedRequests === null ? '' : `${info.maxQueuedRequests} requests`,
          info.maxQueuedTokens === null ? '' : `${info.maxQueuedTokens} queued tokens`,
        ].filter((one) => one !== '')
  if (limits.length > 0) return found.ok('admission_limits', `requests are refused beyond ${limits.join(' or ')}`)
  if ((metrics.rejections ?? 0) > 0) return found.ok('admission_limits', `${metrics.rejections} requests were refused`)
  const limit = expected?.engine.maxInFlight ?? null
  if (limit !== null) return found.ok('admission_limits', `the gateway sends at most ${limit} requests at a time`)
  found.note('admission_limits', info === null ? 'not visible from outside' : 'none', {
    costs: 'Without a limit a burst queues in this engine, although the gateway could use others.',
    next: next.queueLimits,
  })
}

export function checkSleepMode({ info, switches }: EngineFacts, found: Findings): void {
  if (!inDevMode(switches)) return
  found.ok(
    'sleep_mode',
    info?.sleepMode === true ? 'sleep and pause; the gateway observes both' : 'pause; the gateway observes it',
  )
}

/** Determines the role in disaggregated serving, as far as the engine shows it. */
export function checkRole(
  { info, metrics }: EngineFacts,
  { next }: Inspection,
  expected: ExpectedEngine | null,
  found: Findings,
): void {
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
    return found.problem('kv_transfer', `${connectors[0]}, but the configured role is ${role}`, {
      costs: 'The KV cache is never transferred.',
      next: `Start it with "kv_role":"${role === 'prefill' ? 'kv_producer' : 'kv_consumer'}", or swap the roles.`,
    })
  }
  if (connectors.length > 0) return found.ok('kv_transfer', `${connectors.join(', ')}, role ${role}`)
  const remedy = {
    costs: 'The decode engine computes the prompt again.',
    next: next.kvTransfer(role),
  }
  if (info === null) found.note('kv_transfer', `no connector is visible, but the configured role is ${role}`, remedy)
  else found.problem('kv_transfer', `no connector, but the configured role is ${role}`, remedy)
}

export function checkKeepAlive({ idle }: EngineFacts, found: Findings): void {
  if (idle === null) return
  const ours = `${IDLE_MS / 1000} s`
  if ('openAfterMs' in idle)
    return found.ok(
      'keep_alive',
      `idle connections stay open for more than ${(idle.openAfterMs / 1000).toFixed(0)} s; the gateway closes ` +
        `them after ${ours}`,
    )
  const { closedAfterMs } = idle
  const seconds = `${(closedAfterMs / 1000).toFixed(1)} s`
  if (closedAfterMs > IDLE_MS)
    return found.ok('keep_alive', `idle connections stay open for ${seconds}; the gateway closes them after ${ours}`)
  const remedy = {
    costs: 'Requests use connections that are being closed and must be resent, or each opens a new one.',
    next: 'VLLM_HTTP_TIMEOUT_KEEP_ALIVE=5 or more (seconds); for a proxy in front, its keep-alive timeout.',
  }
  found.warn(
    'keep_alive',
    closedAfterMs === 0
      ? 'every response closes its connection'
      : `idle connections stay open for only ${seconds}, less than the gateway’s ${ours}`,
    remedy,
  )
}
