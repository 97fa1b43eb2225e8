import type { LmcacheConfig } from '../../config.ts'
import { type LmcacheService, lmcacheServices } from '../../config/lmcache-services.ts'
import { hostOf, InstanceMap } from '../../core/lmcache/instance-map.ts'
import type { Ports } from '../../ports.ts'
import type { OriginTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'
import type { PoolRoute } from '../pool-route.ts'
import type { CacheSource } from './cache-source.ts'
import { Controller } from './controller.ts'
import { Coordinator } from './coordinator.ts'
import { LmcacheMetadata } from './lmcache-metadata.ts'
import { PoolLookup } from './pool-lookup.ts'
import { RegistryKeys } from './registry-keys.ts'
import { SkipCounter } from './skipped-lookups.ts'

export type LookupPorts = Pick<Ports, 'origin' | 'now' | 'log'>

/** Lookup strategy of a pool: calls to a service, or the registry in the pool's own object. */
export type LookupStrategy = { readonly metadata: LmcacheMetadata; readonly skips: SkipCounter } & (
  | { readonly lookup: PoolLookup }
  | { readonly lookup: null; readonly keys: RegistryKeys }
)

export function strategyOf(route: PoolRoute, ports: LookupPorts): LookupStrategy | null {
  const { cluster, pool, targets } = route
  const { lmcache } = pool
  if (lmcache === null) return null
  const source = sourceOf(lmcache, ports)
  const map = new InstanceMap(
    pool.engines.map(({ id, url, lmcacheInstance }) => ({ id, host: hostOf(url), instance: lmcacheInstance })),
  )
  const metadata = new LmcacheMetadata({
    ports,
    targets,
    map,
    source,
    model: lmcache.model,
    worldSize: lmcache.worldSize,
    servedModel: pool.model,
  })
  const { shared, chunkTokens } = lmcache
  const skips = new SkipCounter()
  if (source === null)
    return { metadata, skips, lookup: null, keys: new RegistryKeys({ metadata, chunkTokens, shared }) }
  const names = { cluster: cluster.id, pool: pool.model }
  return {
    metadata,
    skips,
    lookup: new PoolLookup({
      ports,
      source,
      metadata,
      engines: pool.engines.map(({ id }) => id),
      shared,
      skipped: skips.count,
      names,
    }),
  }
}

const SOURCES: Readonly<Record<LmcacheService, new (origin: Origin, target: OriginTarget) => CacheSource>> = {
  coordinator: Coordinator,
  controller: Controller,
}

/** null: the gateway itself is the registry. */
function sourceOf(lmcache: LmcacheConfig, { origin }: Pick<Ports, 'origin'>): CacheSource | null {
  const [service] = lmcacheServices(lmcache)
  if (service === undefined) return null
  const { headers, binding } = lmcache
  const flat = Object.entries(headers).flatMap(([name, value]) => [name.toLowerCase(), value])
  return new SOURCES[service.kind](origin, { id: 'lmcache', url: service.url, headers: flat, binding })
}
