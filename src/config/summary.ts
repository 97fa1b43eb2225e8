/** Summary of a configuration for `firstlight check`: no secrets, the important defaults, and all other settings. */
import type { ClusterConfig, Config, EngineConfig, LmcacheConfig, PoolSettings, RegionalGateway } from '../config.ts'
import type { PolicyConfig } from '../core/contract/contract.ts'
import type { KeyLimits } from '../core/limits/key-limiter.ts'
import { ownEngines, reportsShareThePort } from './validate.ts'
import { THRESHOLD_TOKENS } from './pool-schema.ts'
import { addressText, isLoopback } from './fields.ts'
import { urlHost } from '../url.ts'
import { countText, durationText, sizeText } from './problem.ts'

/* Clusters behind another gateway. */

export const regionalSettings = ({ rttMs, digestIntervalMs }: RegionalGateway): Readonly<Record<string, string>> => ({
  'round trip': rttMs === null ? 'measured' : durationText(rttMs),
  digest: `at most ${durationText(digestIntervalMs)} old`,
})

/** Notes: valid settings that are probably unintended. */
export function regionalNotes({ clusters }: Pick<Config, 'clusters'>): string[] {
  return clusters.flatMap((cluster) =>
    cluster.gateway === null
      ? []
      : [...lonely(cluster, clusters), ...ofTheWay(cluster)].map((note) => `${cluster.id}: ${note}`),
  )
}

function lonely({ id, pools }: ClusterConfig, clusters: readonly ClusterConfig[]): string[] {
  const alone = pools.filter(
    ({ model }) => !clusters.some((other) => other.id !== id && other.pools.some((pool) => pool.model === model)),
  )
  if (alone.length === 0) return []
  const models = alone.map(({ model }) => model).join(', ')
  return [
    `no other cluster has ${models}: what this one expects decides nothing, and nothing can take over when it fails.`,
  ]
}

/** Notes on the connection, which carries prompts and a key. */
function ofTheWay({ pools }: ClusterConfig): string[] {
  const { url, key, headers, binding } = pools[0]!.engines[0]!
  if (binding !== null) return []
  const to = new URL(url)
  const isOpen = to.protocol === 'http:' && !isLoopback(urlHost(to))
  const hasSecret = key !== null || Object.keys(headers).length > 0
  return [
    ...(isOpen && hasSecret
      ? ['its key goes over http: in the clear, and so do prompts. Say https:, unless the network encrypts.']
      : []),
    ...(hasSecret ? [] : ['has no `key`: a gateway that asks for keys tells nothing and serves nobody without one.']),
  ]
}

export interface Summary {
  readonly version: number
  readonly listen: string
  readonly callers: string
  readonly admin: string
  /** Other settings of the gateway. */
  readonly settings: Readonly<Record<string, string>>
  readonly clusters: readonly {
    readonly id: string
    readonly region: string | null
    readonly settings: Readonly<Record<string, string>>
    /** Gateway in front of the engines, if there are no `pools`. */
    readonly gateway?: { readonly url: string; readonly more: string }
    readonly pools: readonly PoolSummary[]
  }[]
  /** Valid settings that are probably unintended. */
  readonly notes: readonly string[]
}

export interface PoolSummary {
  readonly model: string
  readonly settings: Readonly<Record<string, string>>
  readonly engines: readonly {
    readonly id: string
    readonly role: string
    readonly url: string
    readonly more: string
  }[]
}

export function summarise(config: Config): Summary {
  return {
    version: config.version,
    listen: addressText(config.listen),
    callers: callers(config),
    admin: summariseAdmin(config),
    settings: gatewaySettings(config),
    clusters: config.clusters.map(summariseCluster),
    notes: notes(config),
  }
}

function callers({ keys, jwt, open, loopback }: Config): string {
  const tokens = jwt === null ? [] : [`tokens of ${jwt.issuer}`]
  if (keys === null && jwt !== null) return tokens.join('')
  if (keys === null) return open ? 'anybody who can reach it' : loopback ? 'anybody on this machine' : 'nobody'
  return keys
    .map((key) => {
      const models = key.models === null ? 'all models' : key.models.join(', ')
      const rights = `${key.allowOverrides ? '; may override' : ''}${key.edge ? '; another gateway' : ''}`
      const ends = key.expires === null ? '' : `; until ${key.expires}`
      const priority = key.priority === null ? '' : `; priority ${key.priority}`
      const requestClass = key.class === 'standard' ? '' : `; ${key.class}`
      const limits = key.limits === null ? '' : `; ${limitsText(key.limits)}`
      return `${key.name} (${models}${rights}${priority}${requestClass}${limits}${ends})`
    })
    .concat(tokens)
    .join(', ')
}

function summariseAdmin({ admin, keys, jwt, open, loopback }: Config): string {
  if (admin !== null) return 'with its key'
  return loopback && keys === null && jwt === null && !open ? 'anybody on this machine' : 'nobody'
}

const limitsText = (limits: KeyLimits): string =>
  [
    ['requests a minute', limits.requestsPerMin] as const,
    ['tokens a minute', limits.tokensPerMin] as const,
    ['tokens a day', limits.tokensPerDay] as const,
    ['at the same time', limits.concurrent] as const,
  ]
    .filter(([, limit]) => limit !== null)
    .map(([unit, limit]) => `${limit} ${unit}`)
    .join(', ')

/** Settings with numbers always, others only if configured. */
function gatewaySettings({
  keys,
  workers,
  limits,
  log,
  metrics,
  bridge,
  cors,
  ttft,
  traces,
  record,
  replicas,
  keyLimits,
}: Config): Record<string, string> {
  return {
    ...(workers !== 1 && { workers: String(workers) }),
    limits:
      `body ${sizeText(limits.bodyBytes)} with ${countText(limits.maxJsonCost)} parse steps, bodies together ` +
      `${sizeText(limits.bufferedBytes)}, heartbeat ${durationText(limits.heartbeatMs)}, ` +
      `drain ${durationText(limits.drainMs)}, ${countText(limits.responseIds)} stored responses`,
    ...(keyLimits !== null && { 'each key': limitsText(keyLimits) }),
    log: [
      log.level,
      log.statsIntervalS > 0 && `statistics every ${durationText(log.statsIntervalS * 1000)}`,
      log.routing && 'routing lines',
    ]
      .filter((one) => one !== false)
      .join(', '),
    ...(metrics.key !== null && { metrics: 'with their key' }),
    ...(bridge !== null && { bridge: 'with its key' }),
    ...(cors !== null && { 'pages of': cors.origins.includes('*') ? 'any origin' : cors.origins.join(', ') }),
    ...(ttft.enabled && { reports: reportsText(ttft, keys !== null) }),
    ...(traces.endpoint !== null && { traces: `to ${traces.endpoint} as ${traces.service}, ${traces.sample * 100} %` }),
    ...(replicas !== null && {
      replicas: `over ${serverText(replicas.url)}${replicas.cluster ? ', a cluster' : ''}`,
    }),
    ...(record !== null && {
      record:
        `${record.file}, ${record.files} files of ` +
        `${sizeText(record.maxBytes)}${record.salt === null ? '' : ', salted'}`,
    }),
  }
}

/** Without user and password. */
const serverText = (url: string): string => {
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}`
}

function reportsText({ listen, token, relay, ttlS, maxRequests }: Config['ttft'], hasKeys: boolean): string {
  const where =
    relay === null ? `kept for ${durationText(ttlS * 1000)}, ${maxRequests} requests` : `passed on to ${relay.url}`
  const open = !hasKeys ? ', from anybody' : listen === null ? ', from the admin' : ' from anybody'
  return `${where}${listen === null ? '' : `, also at ${addressText(listen)}`}${token === null ? open : ''}`
}

function summariseCluster({
  id,
  region,
  weight,
  generation,
  locationHint,
  gateway,
  pools,
}: ClusterConfig): Summary['clusters'][number] {
  const settings = {
    ...(weight !== 1 && { weight: String(weight) }),
    ...(locationHint !== null && { 'location hint': locationHint }),
    ...(generation !== 1 && { generation: String(generation) }),
  }
  if (gateway === null) return { id, region, settings, pools: pools.map(summarisePool) }
  const { url, more } = summariseEngine(pools[0]!.engines[0]!)
  return {
    id,
    region,
    settings: { ...settings, ...regionalSettings(gateway) },
    gateway: { url, more },
    pools: pools.map(summariseRegional),
  }
}

/** Pool behind another gateway, which has the routing settings. */
function summariseRegional(pool: PoolSettings): PoolSummary {
  const { policy: _policy, probes: _probes, ...settings } = summarisePool(pool).settings
  return { model: pool.model, settings, engines: [] }
}

function summarisePool(pool: PoolSettings): PoolSummary {
  const { mode, thresholdTokens, connector, fallback } = pool.split
  const threshold = mode === 'threshold' || mode === 'uncached' ? ` from ${thresholdTokens} tokens` : ''
  return {
    model: pool.model,
    settings: {
      ...(pool.aliases.length > 0 && { aliases: pool.aliases.join(', ') }),
      ...(pool.adapters.length > 0 && { adapters: pool.adapters.join(', ') }),
      policy: policyText(pool.policy),
      ...(pool.shadow !== null && { shadow: policyText(pool.shadow) }),
      tokens: `${pool.tokenizer ?? 'from bytes, ratio learned'}; blocks of ${pool.blockTokens}`,
      ...(mode !== 'never' && { split: `${mode}${threshold}, by ${connector}; without a prefill engine: ${fallback}` }),
      ...(pool.lmcache !== null && { lmcache: lmcacheText(pool.lmcache) }),
      limits:
        `connect ${durationText(pool.limits.connectMs)}, first byte ${durationText(pool.limits.firstByteMs)}, ` +
        `whole answer ${durationText(pool.limits.answerMs)}, silence ${durationText(pool.limits.idleMs)}`,
      probes: `every ${durationText(pool.statsIntervalMs)}`,
      retries:
        `${pool.retry.share * 100} % of requests and ${pool.retry.minPerS} a second; out after ` +
        `${pool.circuit.failures} failures, for ${durationText(pool.circuit.openMs)}`,
      ...(pool.retry.hedgeMs !== 'off' && { hedged: hedgeText(pool.retry.hedgeMs) }),
      ...(pool.retry.midStream !== 'off' && { continued: continuedText(pool.retry) }),
      ...(pool.slo !== null && { slo: sloText(pool.slo) }),
      ...(pool.queue !== null && {
        queue: `${pool.queue.maxRequests} requests, up to ${durationText(pool.queue.maxWaitMs)}`,
      }),
      sessions:
        `header ${pool.session.header}` + (pool.session.body === null ? '' : `, else ${pool.session.body} in the body`),
      ...(pool.observeShare !== 1 && { observed: `${pool.observeShare * 100} % of streams` }),
    },
    engines: pool.engines.map(summariseEngine),
  }
}

const hedgeText = (after: number | 'auto'): string =>
  after === 'auto' ? 'streams whose first byte is later than predicted' : `after ${durationText(after)}`

const continuedText = ({ midStream, midStreamMax }: PoolSettings['retry']): string =>
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
  const given = Object.entries(options).map(([key, value]) => `${key} ${value}`)
  return given.length === 0 ? name : `${name} (${given.join(', ')})`
}

function lmcacheText({ coordinator, controller, budgetMs, shared }: LmcacheConfig): string {
  const source =
    coordinator !== null
      ? `coordinator ${coordinator}, ${durationText(budgetMs)}`
      : controller !== null
        ? `controller ${controller}, ${durationText(budgetMs)}`
        : 'servers report to this gateway'
  return shared ? `${source}; engines read each other's cache` : source
}

function summariseEngine(engine: EngineConfig): PoolSummary['engines'][number] {
  const more = [
    engine.kind === 'external' ? `last resort: ${engine.providerModel ?? 'the model'} at a provider` : null,
    engine.discover === 'dns' ? 'each address of its name' : null,
    engine.kubernetes === null ? null : `each ready pod with ${engine.kubernetes.selector}`,
    engine.key === null ? null : 'key',
    ...Object.keys(engine.headers),
    engine.binding === null ? null : `binding ${engine.binding}`,
    engine.weight === 1 ? null : `weight ${engine.weight}`,
    engine.maxInFlight === null ? null : `at most ${engine.maxInFlight} requests`,
    engine.models === null ? null : `only ${engine.models.join(', ')}`,
    engine.prefixCaching === 'auto' ? null : `prefix caching ${engine.prefixCaching}`,
    engine.cacheBlocks === null ? null : `${engine.cacheBlocks} blocks of cache`,
    engine.rttMs === 0 ? null : `${durationText(engine.rttMs)} away`,
    engine.profile,
    engine.lmcacheInstance === null ? null : `LMCache ${engine.lmcacheInstance}`,
    engine.kvEvents === null ? null : `KV events ${engine.kvEvents.endpoint}`,
    ...Object.entries(engine.labels).map(([name, value]) => `${name}=${value}`),
  ]
  return { id: engine.id, role: engine.role, url: engine.url, more: more.filter((one) => one !== null).join(', ') }
}

function notes(config: Config): string[] {
  const found: string[] = []
  if (summariseAdmin(config) === 'nobody') found.push('without `admin`, nobody can drain engines or read decisions.')
  const silent =
    summariseAdmin(config) === 'nobody' &&
    config.clusters.some(({ pools }) =>
      pools.some(({ lmcache }) => lmcache?.registry === true && lmcache.token === null),
    )
  if (config.keys === null && config.jwt === null && config.cors?.origins.includes('*') === true)
    found.push(
      '`cors` lets in every page, and no key is asked for: whatever page a browser here has open may use the engines.',
    )
  for (const id of ownEngines(config)) found.push(`${id} has the listen address of this gateway: requests would loop.`)
  if (reportsShareThePort(config))
    found.push('`ttft.listen` has the same port as `listen`. Reports need a separate port.')
  found.push(...reportNotes(config))
  if (silent) found.push('without `lmcache.token` or `admin`, no LMCache server can report to the registry.')
  found.push(...regionalNotes(config))
  for (const { id, weight, gateway, pools } of config.clusters) {
    if (weight === 0) found.push(`${id}: has weight 0.`)
    if (gateway !== null) continue
    for (const pool of pools) {
      const lone =
        pool.engines.length === 1 &&
        pool.engines[0]!.discover === null &&
        !config.clusters.some((other) => other.id !== id && other.pools.some(({ model }) => model === pool.model))
      const said = [
        ...(lone ? ['there is one engine, so nothing can take over when it fails.'] : []),
        ...poolNotes(pool, config.limits),
      ]
      found.push(...said.map((note) => `${id}, ${pool.model}: ${note}`))
    }
  }
  return found
}

/** Notes on reports that are unauthenticated or cannot be sent. */
function reportNotes({ ttft: { enabled, token, listen }, keys, open }: Config): string[] {
  if (!enabled || token !== null) return []
  if (listen !== null && !isLoopback(listen.host))
    return ['without `ttft.token`, anybody who can connect to `ttft.listen` may write and read reports.']
  if (listen === null && keys !== null)
    return ['without `ttft.token`, only the admin key opens /ttft_report: set it, or `ttft.listen` for reporters.']
  return open ? ['without `ttft.token`, anybody who can connect may write and read reports.'] : []
}

function poolNotes(
  { engines, split, lmcache, policy, tokenizer, retry: { hedgeMs } }: PoolSettings,
  { heartbeatMs }: Config['limits'],
): string[] {
  const found: string[] = []
  if (typeof hedgeMs === 'number' && heartbeatMs > 0 && hedgeMs >= heartbeatMs)
    found.push('`retry.hedge_ms` is not below `limits.heartbeat_ms`: streams that have a heartbeat are not hedged.')
  if (engines.every((engine) => engine.weight === 0)) found.push('every engine has weight 0.')
  if (split.mode === 'never' && engines.some(({ role }) => role === 'prefill'))
    found.push('`split.mode` is never: prefill engines get nothing.')
  if (split.thresholdTokens !== THRESHOLD_TOKENS && split.mode !== 'threshold' && split.mode !== 'uncached') {
    found.push(
      `\`split.threshold_tokens\` means nothing while \`split.mode\` is ${split.mode}: say \`mode: threshold\` ` +
        `or \`uncached\`.`,
    )
  }
  if (tokenizer === null && engines.some(({ kvEvents }) => kvEvents !== null)) {
    found.push('without `tokenizer` prompts are measured in bytes: no block of a KV event is ever found in them.')
  }
  if (lmcache === null && policy.name === 'kv_aware')
    found.push('the policy kv_aware lives on LMCache lookups: without `lmcache` its fallback decides.')
  return found
}
