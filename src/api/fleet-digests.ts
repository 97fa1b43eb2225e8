/** Digests of all pools and status of all regions, for operators. */
import type { EngineDigest, PoolDigest } from '../core/contract/pool-digest.ts'
import type { RegionStatus } from '../core/contract/region-status.ts'
import { mapYielding } from '../map-yielding.ts'
import { poolOf, type PoolRoute } from '../origin/pool-route.ts'
import type { DigestCache } from '../origin/digests/digest-cache.ts'
import type { Ports } from '../ports.ts'
import type { ModelRegistry } from './model-registry.ts'

export interface FleetParts {
  readonly ports: Pick<Ports, 'pool' | 'log' | 'yieldToEventLoop'>
  readonly models: Pick<ModelRegistry, 'routes'>
  readonly digests: Pick<DigestCache, 'regionStatus'>
}

/** Digests of all pools, in the order of the routes. null: unreachable; the log has the cause. */
export function digestsOf({ ports, models }: Omit<FleetParts, 'digests'>): Promise<(PoolDigest | null)[]> {
  return mapYielding(ports.yieldToEventLoop, models.routes, async (route) => {
    const { cluster, pool } = route
    try {
      const object = poolOf(ports, route)
      return redactRegional(route, await (object.overview?.digest?.() ?? object.digest()))
    } catch (error) {
      ports.log.warn('digest_unreachable', { cluster: cluster.id, pool: pool.model, error })
      return null
    }
  })
}

/**
 * Removes fields of another gateway's engines that this ledger cannot know: it has only what was sent there, not their
 * queues and caches.
 */
export function redactRegional({ cluster }: PoolRoute, digest: PoolDigest): PoolDigest {
  return cluster.gateway === null ? digest : { ...digest, engines: digest.engines.map(ownEnginesOnly) }
}

/** Fields that the ledger of an edge knows about another gateway's engines. */
const EDGE_FIELDS = [
  'id',
  'role',
  'weight',
  'available',
  'healthy',
  'draining',
  'asleep',
  'circuit',
  'changes',
  'requests',
  'ttftMs',
  'requestsTotal',
  'failuresTotal',
  'countedBefore',
  'contextTokens',
  'recentTtftMs',
  'hitRate',
] as const satisfies readonly (keyof EngineDigest)[]

// Digests of older objects lack newer fields.
const ownEnginesOnly = (engine: EngineDigest): EngineDigest =>
  Object.fromEntries(
    EDGE_FIELDS.filter((field) => field in engine).map((field) => [field, engine[field]]),
  ) as unknown as EngineDigest

/** Status of the gateways of clusters, in the order of the routes. */
export function regionsOf({ ports, models, digests }: FleetParts, waits: boolean): Promise<(RegionStatus | null)[]> {
  return mapYielding(ports.yieldToEventLoop, models.routes, (route) => digests.regionStatus(route, waits))
}
