/** Engine discovery: an engine with `discover` is a template for one engine per address of its host, or per pod. */
import type { ClusterConfig, Config, EngineConfig, PoolSettings } from '../config.ts'
import { hostOf, hostPort } from '../url.ts'
import { configuredRoles } from './split-roles.ts'

/** Maximum id length of a template: the address is appended, and ids have at most 63 characters without a port. */
export const MAX_TEMPLATE_ID_CHARS = 23

/** A pod that can take requests. */
export interface DiscoveredPod {
  readonly name: string
  readonly address: string
  /** null: the port of the template's URL. */
  readonly port: number | null
  readonly labels: Readonly<Record<string, string>>
  /** Models that it lists; null: not read. */
  readonly models: readonly string[] | null
  readonly weight: number | null
  readonly kvEventsPort: number | null
  /** Position of the port among several target ports. null: there is one. */
  readonly rank: number | null
}

/** Engines that discovery found. */
interface DiscoveredEngines {
  /** Addresses of a name, without brackets. */
  addressesOf(name: string): readonly string[]
  /** Ready pods of a template. */
  podsOf(template: EngineConfig): readonly DiscoveredPod[]
}

/**
 * Warning for a name of a Kubernetes Service with one address; null: none. A Service with a cluster IP has one address
 * for all pods, so the gateway would route to one engine and the cluster would choose the pod.
 */
export const singleAddressNote = (name: string, addresses: readonly string[]): string | null =>
  addresses.length === 1 && /\.svc(\.[a-z0-9.-]+)?\.?$/.test(name)
    ? `${name} has one address. If there are several pods, the Service is not headless: set \`clusterIP: None\`.`
    : null

/** Names to resolve, with the shortest interval of all pools, milliseconds. */
export function namesIn({ clusters }: Pick<Config, 'clusters'>): ReadonlyMap<string, number> {
  const names = new Map<string, number>()
  for (const { discoverIntervalMs, engines } of clusters.flatMap(({ pools }) => pools)) {
    for (const { discover, url } of engines) {
      if (discover !== 'dns') continue
      const name = hostOf(url)
      names.set(name, Math.min(discoverIntervalMs, names.get(name) ?? Infinity))
    }
  }
  return names
}

/** Templates of pods, with the interval of their pool, milliseconds. */
export function podTemplatesIn({ clusters }: Pick<Config, 'clusters'>): readonly (readonly [EngineConfig, number])[] {
  return clusters
    .flatMap(({ pools }) => pools)
    .flatMap(({ discoverIntervalMs, engines }) =>
      engines
        .filter(({ kubernetes }) => kubernetes !== null)
        .map((engine): readonly [EngineConfig, number] => [engine, discoverIntervalMs]),
    )
}

/** True if the configuration has templates of discovered engines. */
export const hasTemplates = (config: Pick<Config, 'clusters'>): boolean =>
  namesIn(config).size > 0 || podTemplatesIn(config).length > 0

/**
 * Replaces each template by one engine per address or pod: `ID-ADDRESS`, colons as dashes, with `_PORT` if a pod has
 * another port than the template. An address that the document names itself is skipped. A name without addresses leaves
 * no engine.
 * @param discovered addresses and pods, or only addresses
 * @param onSkipped called for engines whose id or address another engine of the cluster has
 */
export function withDiscovered(
  config: Config,
  discovered: DiscoveredEngines | DiscoveredEngines['addressesOf'],
  onSkipped: (engine: string) => void = () => undefined,
): Config {
  const engines = typeof discovered === 'function' ? { addressesOf: discovered, podsOf: () => [] } : discovered
  return hasTemplates(config)
    ? { ...config, clusters: config.clusters.map((cluster) => clusterWithDiscovered(cluster, engines, onSkipped)) }
    : config
}

function clusterWithDiscovered(
  cluster: ClusterConfig,
  discovered: DiscoveredEngines,
  onSkipped: (engine: string) => void,
): ClusterConfig {
  const configured = cluster.pools.flatMap(({ engines }) => engines).filter(({ discover }) => discover === null)
  const configuredServers = new Set(configured.map((engine) => hostPort(engine)))
  const taken = new Set(configured.map(({ id }) => id))
  /** Two names may have one address, and the id `a-fd00` at 1::2 equals `a` at fd00:1::2. */
  const isNew = (engine: EngineConfig): boolean => {
    const server = hostPort(engine)
    if (configuredServers.has(server)) return false
    const isOther = taken.has(engine.id) || taken.has(server)
    if (isOther) onSkipped(`${cluster.id}, ${engine.id} at ${engine.url}`)
    else taken.add(engine.id).add(server)
    return !isOther
  }
  const enginesOf = (template: EngineConfig, model: string): readonly EngineConfig[] =>
    (template.discover === 'dns'
      ? [...new Set(discovered.addressesOf(hostOf(template.url)))].map((address) => engineAtAddress(template, address))
      : discovered
          .podsOf(template)
          .filter(({ models }) => models === null || models.includes(model))
          .map((pod) => engineAtPod(template, pod))
    ).filter(isNew)
  return { ...cluster, pools: cluster.pools.map((pool) => poolWithDiscovered(pool, enginesOf)) }
}

function poolWithDiscovered(
  pool: PoolSettings,
  enginesOf: (template: EngineConfig, model: string) => readonly EngineConfig[],
): PoolSettings {
  const receivers = { ...pool.split.lmcache.receivers }
  const engines = pool.engines.flatMap((engine) => {
    if (engine.discover === null) return [engine]
    const discovered = enginesOf(engine, pool.model)
    const receiver = receivers[engine.id]
    delete receivers[engine.id]
    if (receiver !== undefined) for (const { id, url } of discovered) receivers[id] = { ...receiver, host: hostOf(url) }
    return discovered
  })
  const roles = pool.engines.every(({ discover }) => discover === null) ? {} : { roles: configuredRoles(pool.engines) }
  return { ...pool, engines, split: { ...pool.split, ...roles, lmcache: { ...pool.split.lmcache, receivers } } }
}

function engineAtAddress(template: EngineConfig, address: string): EngineConfig {
  const { id, url, kvEvents } = template
  const { protocol, port, pathname } = new URL(url)
  const host = address.includes(':') ? `[${address}]` : address
  const atHost = (socket: string): string => socket.replace(/^tcp:\/\/(\[[^\]]*\]|[^:]*)/, `tcp://${host}`)
  return {
    ...template,
    id: `${id}-${address.replaceAll(':', '-')}`,
    url: `${protocol}//${host}${port === '' ? '' : `:${port}`}${pathname.replace(/\/+$/, '')}`,
    discover: null,
    kubernetes: null,
    kvEvents:
      kvEvents === null
        ? null
        : {
            ...kvEvents,
            endpoint: atHost(kvEvents.endpoint),
            replayEndpoint: kvEvents.replayEndpoint === null ? null : atHost(kvEvents.replayEndpoint),
          },
  }
}

function engineAtPod(template: EngineConfig, pod: DiscoveredPod): EngineConfig {
  const engine = engineAtAddress(template, pod.address)
  const url = new URL(engine.url)
  const templatePort = url.port
  if (pod.port !== null) url.port = String(pod.port)
  // Pods with `hostNetwork` share the address of their node. An IPv6 address contains no underscore.
  const suffix = url.port === templatePort ? '' : `_${pod.port}`
  const kvEvents =
    pod.kvEventsPort === null
      ? engine.kvEvents
      : {
          replayEndpoint: null,
          topic: null,
          ...engine.kvEvents,
          endpoint: `tcp://${url.hostname}:${pod.kvEventsPort}`,
        }
  return {
    ...engine,
    id: engine.id + suffix,
    url: url.origin + url.pathname.replace(/\/+$/, ''),
    role: roleOf(template, pod.labels),
    labels: { pod: pod.name, ...(pod.rank === null ? {} : { rank: String(pod.rank) }), ...engine.labels },
    weight: pod.weight ?? engine.weight,
    kvEvents,
  }
}

/** Role of the first list with a label of the pod, else the role of the template. Labels match as a whole. */
function roleOf({ role, kubernetes }: EngineConfig, labels: DiscoveredPod['labels']): EngineConfig['role'] {
  const hasOne = (pairs: readonly string[]): boolean =>
    pairs.some((pair) => labels[pair.slice(0, pair.indexOf('='))] === pair.slice(pair.indexOf('=') + 1))
  if (hasOne(kubernetes!.prefillLabels)) return 'prefill'
  if (hasOne(kubernetes!.decodeLabels)) return 'decode'
  return hasOne(kubernetes!.encodeLabels) ? 'encode' : role
}
