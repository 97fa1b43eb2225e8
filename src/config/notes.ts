/** Notes: valid settings that are probably unintended. */
import type { ClusterConfig, Config, PoolSettings } from '../config.ts'
import { urlHost } from '../url.ts'
import { adminText } from './access-summary.ts'
import { isLoopback } from './address.ts'
import { enginesAtOwnAddress, reportsShareMainPort } from './listen-conflicts.ts'
import { THRESHOLD_TOKENS } from './split-schema.ts'

function regionalNotes({ clusters }: Pick<Config, 'clusters'>): string[] {
  return clusters.flatMap((cluster) =>
    cluster.gateway === null
      ? []
      : [...unsharedModelNotes(cluster, clusters), ...connectionNotes(cluster)].map((note) => `${cluster.id}: ${note}`),
  )
}

function unsharedModelNotes({ id, pools }: ClusterConfig, clusters: readonly ClusterConfig[]): string[] {
  const unshared = pools.filter(
    ({ model }) => !clusters.some((other) => other.id !== id && other.pools.some((pool) => pool.model === model)),
  )
  if (unshared.length === 0) return []
  const models = unshared.map(({ model }) => model).join(', ')
  return [
    `no other cluster has ${models}: what this one expects decides nothing, and nothing can take over when it fails.`,
  ]
}

/** Notes on the connection, which carries prompts and a key. */
function connectionNotes({ pools }: ClusterConfig): string[] {
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

export function configNotes(config: Config): string[] {
  const notes: string[] = []
  if (adminText(config) === 'nobody') notes.push('without `admin`, nobody can drain engines or read decisions.')
  const registryIsUnreachable =
    adminText(config) === 'nobody' &&
    config.clusters.some(({ pools }) =>
      pools.some(({ lmcache }) => lmcache?.registry === true && lmcache.token === null),
    )
  if (config.keys === null && config.jwt === null && config.cors?.origins.includes('*') === true)
    notes.push(
      '`cors` lets in every page, and no key is asked for: whatever page a browser here has open may use the engines.',
    )
  for (const id of enginesAtOwnAddress(config))
    notes.push(`${id} has the listen address of this gateway: requests would loop.`)
  if (reportsShareMainPort(config))
    notes.push('`ttft.listen` has the same port as `listen`. Reports need a separate port.')
  notes.push(...reportNotes(config))
  if (registryIsUnreachable)
    notes.push('without `lmcache.token` or `admin`, no LMCache server can report to the registry.')
  notes.push(...regionalNotes(config))
  for (const { id, weight, gateway, pools } of config.clusters) {
    if (weight === 0) notes.push(`${id}: has weight 0.`)
    if (gateway !== null) continue
    for (const pool of pools) {
      const isOnlyEngine =
        pool.engines.length === 1 &&
        pool.engines[0]!.discover === null &&
        !config.clusters.some((other) => other.id !== id && other.pools.some(({ model }) => model === pool.model))
      const poolFindings = [
        ...(isOnlyEngine ? ['there is one engine, so nothing can take over when it fails.'] : []),
        ...poolNotes(pool, config.limits),
      ]
      notes.push(...poolFindings.map((note) => `${id}, ${pool.model}: ${note}`))
    }
  }
  return notes
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
  const notes: string[] = []
  if (typeof hedgeMs === 'number' && heartbeatMs > 0 && hedgeMs >= heartbeatMs)
    notes.push('`retry.hedge_ms` is not below `limits.heartbeat_ms`: streams that have a heartbeat are not hedged.')
  if (engines.every((engine) => engine.weight === 0)) notes.push('every engine has weight 0.')
  if (split.mode === 'never' && engines.some(({ role }) => role === 'prefill'))
    notes.push('`split.mode` is never: prefill engines get nothing.')
  if (split.thresholdTokens !== THRESHOLD_TOKENS && split.mode !== 'threshold' && split.mode !== 'uncached') {
    notes.push(
      `\`split.threshold_tokens\` means nothing while \`split.mode\` is ${split.mode}: say \`mode: threshold\` ` +
        `or \`uncached\`.`,
    )
  }
  if (tokenizer === null && engines.some(({ kvEvents }) => kvEvents !== null)) {
    notes.push('without `tokenizer` prompts are measured in bytes: no block of a KV event is ever found in them.')
  }
  if (lmcache === null && policy.name === 'kv_aware')
    notes.push('the policy kv_aware lives on LMCache lookups: without `lmcache` its fallback decides.')
  return notes
}
