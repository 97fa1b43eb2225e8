/** Summary of a configuration for `firstlight check`: no secrets, the important defaults, and all other settings. */
import type { ClusterConfig, Config, RegionalGateway } from '../config.ts'
import { adminText, callersText, limitsText } from './access-summary.ts'
import { addressText } from './address.ts'
import { configNotes } from './notes.ts'
import { type PoolConfigSummary, summariseEngine, summarisePool, summariseRegionalPool } from './pool-summary.ts'
import { countText, durationText, sizeText } from './units.ts'

const regionalSettings = ({ rttMs, digestIntervalMs }: RegionalGateway): Readonly<Record<string, string>> => ({
  'round trip': rttMs === null ? 'measured' : durationText(rttMs),
  digest: `at most ${durationText(digestIntervalMs)} old`,
})

export interface ConfigSummary {
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
    readonly pools: readonly PoolConfigSummary[]
  }[]
  /** Valid settings that are probably unintended. */
  readonly notes: readonly string[]
}

export function summarise(config: Config): ConfigSummary {
  return {
    version: config.version,
    listen: addressText(config.listen),
    callers: callersText(config),
    admin: adminText(config),
    settings: gatewaySettings(config),
    clusters: config.clusters.map(summariseCluster),
    notes: configNotes(config),
  }
}

/** Settings with numbers always, others only if configured. */
function gatewaySettings({
  keys,
  workers,
  tls,
  limits,
  log,
  metrics,
  bridge,
  cors,
  ttft,
  traces,
  alerts,
  record,
  replicas,
  keyLimits,
}: Config): Record<string, string> {
  return {
    ...(workers !== 1 && { workers: String(workers) }),
    ...(tls !== null && { tls: `${tls.cert}${tls.clientCa === null ? '' : ', for clients with a certificate only'}` }),
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
    ...(alerts.webhook !== null && { alerts: `to ${new URL(alerts.webhook.url).host}` }),
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
    relay === null ? `stored for ${durationText(ttlS * 1000)}, ${maxRequests} requests` : `forwarded to ${relay.url}`
  const open = !hasKeys ? ', from anyone' : listen === null ? ', from the admin' : ' from anyone'
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
}: ClusterConfig): ConfigSummary['clusters'][number] {
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
    pools: pools.map(summariseRegionalPool),
  }
}
