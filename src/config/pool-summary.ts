/** Summary of a pool and its engines. */
import type { EngineConfig, LmcacheConfig, PoolSettings } from '../config.ts'
import type { PolicyConfig } from '../core/contract/pool-config.ts'
import { lmcacheServices } from './lmcache-services.ts'
import { durationText } from './units.ts'
import { podsText } from './pods-text.ts'
import { isProvider } from './is-provider.ts'
import { ranksText } from './ranks.ts'

export interface PoolConfigSummary {
  readonly model: string
  readonly settings: Readonly<Record<string, string>>
  readonly engines: readonly {
    readonly id: string
    readonly role: string
    readonly url: string
    readonly more: string
  }[]
}

/** Pool behind another gateway, which has the routing settings. */
export function summariseRegionalPool(pool: PoolSettings): PoolConfigSummary {
  const { policy: _policy, probes: _probes, ...settings } = summarisePool(pool).settings
  return { model: pool.model, settings, engines: [] }
}

export function summarisePool(pool: PoolSettings): PoolConfigSummary {
  const { mode, thresholdTokens, connector, fallback } = pool.split
  const threshold = mode === 'threshold' || mode === 'uncached' ? ` from ${thresholdTokens} tokens` : ''
  return {
    model: pool.model,
    settings: {
      ...(pool.aliases.length > 0 && { aliases: pool.aliases.join(', ') }),
      ...(pool.adapters.length > 0 && { adapters: pool.adapters.join(', ') }),
      ...(pool.reportsAdapters && { adapters: 'those that engines have loaded' }),
      policy: policyText(pool.policy),
      ...(pool.shadow !== null && { shadow: policyText(pool.shadow) }),
      tokens: `${pool.tokenizer ?? 'from bytes, ratio learned'}; blocks of ${pool.blockTokens}`,
      ...(mode !== 'never' && { split: `${mode}${threshold}, by ${connector}; without a prefill engine: ${fallback}` }),
      ...(pool.lmcache !== null && { lmcache: lmcacheText(pool.lmcache) }),
      limits:
        `connect ${durationText(pool.limits.connectMs)}, first byte ${durationText(pool.limits.firstByteMs)}, ` +
        `complete response ${durationText(pool.limits.answerMs)}, idle ${durationText(pool.limits.idleMs)}`,
      probes: `every ${durationText(pool.statsIntervalMs)}`,
      retries:
        `${pool.retry.share * 100} % of requests and ${pool.retry.minPerS} a second; circuit opens after ` +
        `${pool.circuit.failures} failures, for ${durationText(pool.circuit.openMs)}`,
      ...(pool.retry.hedgeMs !== 'off' && { hedged: hedgeText(pool.retry.hedgeMs) }),
      ...(pool.retry.midStream !== 'off' && { continued: continuationText(pool.retry) }),
      ...(pool.slo !== null && { slo: sloText(pool.slo) }),
      ...(pool.queue !== null && {
        queue:
          `${pool.queue.maxRequests} requests, up to ${durationText(pool.queue.maxWaitMs)}` +
          (pool.queue.noEngineWaitMs > 0 ? `, ${durationText(pool.queue.noEngineWaitMs)} without an engine` : ''),
      }),
      ...(pool.wake !== 'off' && {
        sleeping:
          'engines wake on demand' +
          (pool.sleep === null ? '' : `, and sleep after ${pool.sleep.idleS} s (${pool.sleep.minAwake} stay awake)`),
      }),
      sessions: sessionText(pool.session),
      ...(pool.observeShare !== 1 && { observed: `${pool.observeShare * 100} % of streams` }),
    },
    engines: pool.engines.map(summariseEngine),
  }
}

function sessionText({ header, body, known }: PoolSettings['session']): string {
  const sources = [
    ...header.map((name) => `header ${name}`),
    ...body.map((path) => `${path} in the body`),
    ...(known ? ['known clients'] : []),
  ]
  return sources.length === 0 ? 'none' : sources.join(', else ')
}

const hedgeText = (after: number | 'auto'): string =>
  after === 'auto' ? 'streams whose first byte is later than predicted' : `after ${durationText(after)}`

const continuationText = ({ midStream, midStreamMax }: PoolSettings['retry']): string =>
  `${midStream === 'ids' ? 'by token ids' : 'by token ids or by repetition'}, ` +
  `${midStreamMax} ${midStreamMax === 1 ? 'time' : 'times'} a stream`

function sloText({ ttftMs, ttftMsPer1kTokens, itlMs }: NonNullable<PoolSettings['slo']>): string {
  const per1k = ttftMsPer1kTokens === null ? '' : ` + ${durationText(ttftMsPer1kTokens)} per 1,000 tokens`
  return [
    ...(ttftMs === null && per1k === '' ? [] : [`first token ${durationText(ttftMs ?? 0)}${per1k}`]),
    ...(itlMs === null ? [] : [`between tokens ${durationText(itlMs)}`]),
  ].join(', ')
}

function policyText({ name, options }: PolicyConfig): string {
  const optionTexts = Object.entries(options).map(([key, value]) => `${key} ${value}`)
  return optionTexts.length === 0 ? name : `${name} (${optionTexts.join(', ')})`
}

function lmcacheText(lmcache: LmcacheConfig): string {
  const { budgetMs, shared } = lmcache
  const [service] = lmcacheServices(lmcache)
  const source =
    service === undefined
      ? 'servers report to this gateway'
      : `${service.kind} ${service.url}, ${durationText(budgetMs)}`
  return shared ? `${source}; engines read each other's cache` : source
}

export function summariseEngine(engine: EngineConfig): PoolConfigSummary['engines'][number] {
  const more = [
    isProvider(engine) ? `last resort: ${engine.providerModel ?? 'the model'} at a provider` : null,
    engine.discover === 'dns' ? 'each address of its name' : null,
    ranksText(engine),
    engine.kubernetes === null ? null : `each ready pod with ${podsText(engine.kubernetes)}`,
    engine.key === null ? null : 'key',
    ...Object.keys(engine.headers),
    engine.binding === null ? null : `binding ${engine.binding}`,
    engine.weight === 1 ? null : `weight ${engine.weight}`,
    engine.maxInFlight === null ? null : `at most ${engine.maxInFlight} requests`,
    engine.models === null ? null : `only ${engine.models.join(', ')}`,
    engine.prefixCaching === 'auto' ? null : `prefix caching ${engine.prefixCaching}`,
    engine.cacheBlocks === null ? null : `${engine.cacheBlocks} blocks of cache`,
    engine.rttMs === 0 ? null : `round trip ${durationText(engine.rttMs)}`,
    engine.profile,
    engine.lmcacheInstance === null ? null : `LMCache ${engine.lmcacheInstance}`,
    engine.kvEvents === null ? null : `KV events ${engine.kvEvents.endpoint}`,
    ...Object.entries(engine.labels).map(([name, value]) => `${name}=${value}`),
  ]
  return { id: engine.id, role: engine.role, url: engine.url, more: more.filter((one) => one !== null).join(', ') }
}
