import type { ClusterDigest, EngineDigest } from '../core/cluster/contract.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import type { RegionSeen } from '../origin/regions/seen.ts'
import type { Door } from './door.ts'
import { inTurns } from './turns.ts'
import { VERSION } from './version.ts'
import { toWire } from './wire.ts'

/** What every cluster object says now, in the order of the routes; null: it could not be reached, and the log says why. */
export function digestsOf({ ports, catalog }: Pick<Door, 'ports' | 'catalog'>): Promise<(ClusterDigest | null)[]> {
  return inTurns(ports.turn, catalog.routes, async (route) => {
    const { cluster, pool } = route
    try {
      return asShown(route, await ports.cluster(cluster.id, pool.model).digest())
    } catch (error) {
      ports.log.warn('digest_unreachable', { cluster: cluster.id, pool: pool.model, error })
      return null
    }
  })
}

/** What these books know of another gateway is what was sent there: they know no queue and no cache of its engines, and say nothing of them. */
export function asShown({ cluster }: PoolRoute, digest: ClusterDigest): ClusterDigest {
  return cluster.gateway === undefined ? digest : { ...digest, engines: digest.engines.map(ownSide) }
}

function ownSide({ id, role, weight, available, healthy, draining, asleep, circuit, requests, ttftMs, requestsTotal, failuresTotal, countedBefore, recentTtftMs, hitRate }: EngineDigest): EngineDigest {
  const known = { id, role, weight, available, healthy, draining, asleep, circuit, requests, ttftMs, requestsTotal, failuresTotal, countedBefore, recentTtftMs, hitRate }
  // As of an older object that does not say more.
  return known as Partial<EngineDigest> as EngineDigest
}

/** What is known of the gateways of clusters, in the order of the routes. */
export function regionsOf({ ports, catalog, digests }: Pick<Door, 'ports' | 'catalog' | 'digests'>, waits: boolean): Promise<(RegionSeen | null)[]> {
  return inTurns(ports.turn, catalog.routes, (route) => digests.seen(route, waits))
}

export interface PoolsSeen {
  /** Both in the order of the routes. */
  readonly digests: readonly (ClusterDigest | null)[]
  readonly regions: readonly (RegionSeen | null)[]
}

/** Pools as operators see them. `shown` as in `toWire`. */
export async function poolViews({ ports, catalog }: Pick<Door, 'ports' | 'catalog'>, { digests, regions }: PoolsSeen, shown?: Parameters<typeof toWire>[1]): Promise<object[]> {
  const all = await inTurns(ports.turn, digests.flatMap((digest) => digest?.engines ?? []), (engine) => toWire(engine, shown))
  return catalog.routes.map((route, at) => ({ ...poolView(route, digests[at]!, all), ...(route.cluster.gateway === undefined ? {} : { gateway: toWire(regions[at], shown) }) }))
}

/** `wired`: begins with the pool's engines, which are taken off it. */
function poolView({ cluster, pool }: PoolRoute, digest: ClusterDigest | null, wired: unknown[]): object {
  const view = { cluster: cluster.id, region: cluster.region, model: pool.model, aliases: pool.aliases, adapters: pool.adapters, policy: pool.policy.name }
  if (digest === null) {
    return { ...view, reachable: false, bookings: null, engines: pool.engines.map(({ id, role }) => ({ id, role, available: null })) }
  }
  const { bookings, at, seq, configVersion, engines } = digest
  return { ...view, reachable: true, bookings, at, seq, config_version: configVersion, engines: wired.splice(0, engines.length) }
}

/** What is true of the gateway itself. All pools know the same of its replicas. */
export const gatewayView = (door: Pick<Door, 'config' | 'startedAt' | 'draining'>, digests: readonly (ClusterDigest | null)[]) => ({
  version: VERSION,
  config_version: door.config.version,
  started_at: door.startedAt,
  draining: door.draining,
  replicas: digests.find((digest) => digest !== null)?.replicas,
})
