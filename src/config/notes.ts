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
  return [`${models} is served by this cluster only: its predictions do not affect routing, and there is no failover.`]
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
      ? ['key and prompts are sent unencrypted. Use https:, unless the network is encrypted.']
      : []),
    ...(hasSecret ? [] : ['has no `key`. A region that requires keys will refuse every request.']),
  ]
}

export function configNotes(config: Config): string[] {
  const notes: string[] = []
  if (adminText(config) === 'no one')
    notes.push('without `admin`, engines cannot be drained and decisions cannot be read.')
  const registryIsUnreachable =
    adminText(config) === 'no one' &&
    config.clusters.some(({ pools }) =>
      pools.some(({ lmcache }) => lmcache?.registry === true && lmcache.token === null),
    )
  if (config.keys === null && config.jwt === null && config.cors?.origins.includes('*') === true)
    notes.push('`cors` allows every origin, and no key is required: any web page that can connect may use the engines.')
  for (const id of enginesAtOwnAddress(config))
    notes.push(`${id} has the listen address of this gateway: requests would loop.`)
  if (reportsShareMainPort(config))
    notes.push('`ttft.listen` has the same port as `listen`. Reports need a separate port.')
  notes.push(...reportNotes(config))
  if (registryIsUnreachable)
    notes.push('without `lmcache.token` or `admin`, no LMCache server can report to the registry.')
  notes.push(...regionalNotes(config))
  for (const { id, weight, gateway, pools } of config.clusters) {
    if (weight === 0) notes.push(`${id}: has weight 0: it gets requests only if no other cluster can serve them.`)
    if (gateway !== null) continue
    for (const pool of pools) {
      const isOnlyEngine =
        pool.engines.length === 1 &&
        pool.engines[0]!.discover === null &&
        !config.clusters.some((other) => other.id !== id && other.pools.some(({ model }) => model === pool.model))
      const poolFindings = [
        ...(isOnlyEngine ? ['there is one engine, so there is no failover.'] : []),
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
    return ['without `ttft.token`, anyone who can connect to `ttft.listen` may write and read reports.']
  if (listen === null && keys !== null)
    return [
      'without `ttft.token`, /ttft_report requires the admin key. Set `ttft.token`, or `ttft.listen` for reporters.',
    ]
  return open ? ['without `ttft.token`, anyone who can connect may write and read reports.'] : []
}

function poolNotes(
  { engines, split, lmcache, policy, tokenizer, retry: { hedgeMs } }: PoolSettings,
  { heartbeatMs }: Config['limits'],
): string[] {
  const notes: string[] = []
  if (typeof hedgeMs === 'number' && heartbeatMs > 0 && hedgeMs >= heartbeatMs)
    notes.push('`retry.hedge_ms` is not below `limits.heartbeat_ms`: streams that have a heartbeat are not hedged.')
  if (engines.every((engine) => engine.weight === 0))
    notes.push('every engine has weight 0: the pool serves no requests.')
  if (split.mode === 'never' && engines.some(({ role }) => role === 'prefill'))
    notes.push('`split.mode` is never: prefill engines receive no requests.')
  if (split.thresholdTokens !== THRESHOLD_TOKENS && split.mode !== 'threshold' && split.mode !== 'uncached') {
    notes.push(
      `\`split.threshold_tokens\` has no effect with \`split.mode: ${split.mode}\`. Set \`threshold\` or \`uncached\`.`,
    )
  }
  if (tokenizer === null && engines.some(({ kvEvents }) => kvEvents !== null)) {
    notes.push('without `tokenizer`, prompts are measured in bytes and KV events cannot match. Set `tokenizer`.')
  }
  if (lmcache === null && policy.name === 'kv_aware')
    notes.push('policy kv_aware needs `lmcache`; without it the fallback policy is used.')
  return notes
}
