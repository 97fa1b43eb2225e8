/** Engine discovery: an engine with `discover` is a template for one engine per address of its host. */
import type { ClusterConfig, Config, EngineConfig, PoolSettings } from '../config.ts'
import { hostOf, hostPort } from '../url.ts'

/** Maximum id length of a template: the address is appended, and ids have at most 63 characters. */
export const LONGEST_PATTERN_ID = 23

/** Names to resolve, with the shortest interval of all pools, milliseconds. */
export function namesIn({ clusters }: Pick<Config, 'clusters'>): ReadonlyMap<string, number> {
  const names = new Map<string, number>()
  for (const { discoverIntervalMs, engines } of clusters.flatMap(({ pools }) => pools)) {
    for (const { discover, url } of engines) {
      if (discover === null) continue
      const name = hostOf(url)
      names.set(name, Math.min(discoverIntervalMs, names.get(name) ?? Infinity))
    }
  }
  return names
}

/**
 * Replaces each pattern by one engine per address: `ID-ADDRESS`, colons as dashes. An address that the document names
 * itself is skipped. A name without addresses leaves no engine.
 * @param addressesOf addresses of a name, without brackets
 * @param leftOut called for engines whose id or address another engine of the cluster has
 */
export function withFound(
  config: Config,
  addressesOf: (name: string) => readonly string[],
  leftOut: (engine: string) => void = () => undefined,
): Config {
  return namesIn(config).size === 0
    ? config
    : { ...config, clusters: config.clusters.map((cluster) => clusterWithFound(cluster, addressesOf, leftOut)) }
}

function clusterWithFound(
  cluster: ClusterConfig,
  addressesOf: (name: string) => readonly string[],
  leftOut: (engine: string) => void,
): ClusterConfig {
  const written = cluster.pools.flatMap(({ engines }) => engines).filter(({ discover }) => discover === null)
  const named = new Set(written.map((engine) => hostPort(engine)))
  const taken = new Set(written.map(({ id }) => id))
  /** Two names may have one address, and the id `a-fd00` at 1::2 equals `a` at fd00:1::2. */
  const isNew = (engine: EngineConfig): boolean => {
    const place = hostPort(engine)
    if (named.has(place)) return false
    const isOther = taken.has(engine.id) || taken.has(place)
    if (isOther) leftOut(`${cluster.id}, ${engine.id} at ${engine.url}`)
    else taken.add(engine.id).add(place)
    return !isOther
  }
  const foundOf = (pattern: EngineConfig): readonly EngineConfig[] =>
    [...new Set(addressesOf(hostOf(pattern.url)))].map((address) => engineAt(pattern, address)).filter(isNew)
  return { ...cluster, pools: cluster.pools.map((pool) => poolWithFound(pool, foundOf)) }
}

function poolWithFound(pool: PoolSettings, foundOf: (pattern: EngineConfig) => readonly EngineConfig[]): PoolSettings {
  const receivers = { ...pool.split.lmcache.receivers }
  const engines = pool.engines.flatMap((engine) => {
    if (engine.discover === null) return [engine]
    const found = foundOf(engine)
    const receiver = receivers[engine.id]
    delete receivers[engine.id]
    if (receiver !== undefined) for (const { id, url } of found) receivers[id] = { ...receiver, host: hostOf(url) }
    return found
  })
  return { ...pool, engines, split: { ...pool.split, lmcache: { ...pool.split.lmcache, receivers } } }
}

function engineAt(pattern: EngineConfig, address: string): EngineConfig {
  const { id, url, kvEvents } = pattern
  const { protocol, port, pathname } = new URL(url)
  const host = address.includes(':') ? `[${address}]` : address
  const there = (socket: string): string => socket.replace(/^tcp:\/\/(\[[^\]]*\]|[^:]*)/, `tcp://${host}`)
  return {
    ...pattern,
    id: `${id}-${address.replaceAll(':', '-')}`,
    url: `${protocol}//${host}${port === '' ? '' : `:${port}`}${pathname.replace(/\/+$/, '')}`,
    discover: null,
    kvEvents:
      kvEvents === null
        ? null
        : {
            ...kvEvents,
            endpoint: there(kvEvents.endpoint),
            replayEndpoint: kvEvents.replayEndpoint === null ? null : there(kvEvents.replayEndpoint),
          },
  }
}
