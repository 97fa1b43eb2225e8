import type { ClusterDigest } from '../core/cluster/contract.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import type { Door } from './door.ts'
import { inTurns } from './turns.ts'
import { VERSION } from './version.ts'
import { toWire } from './wire.ts'

/** What every cluster object says now, in the order of the routes; null: it could not be reached, and the log says why. */
export function digestsOf({ ports, catalog }: Pick<Door, 'ports' | 'catalog'>): Promise<(ClusterDigest | null)[]> {
  return inTurns(ports.turn, catalog.routes, async ({ cluster, pool }) => {
    try {
      return await ports.cluster(cluster.id, pool.model).digest()
    } catch (error) {
      ports.log.warn('digest_unreachable', { cluster: cluster.id, pool: pool.model, error })
      return null
    }
  })
}

/** Pools as operators see them: `digests` in the order of the routes. `shown` as in `toWire`. */
export async function poolViews({ ports, catalog }: Pick<Door, 'ports' | 'catalog'>, digests: readonly (ClusterDigest | null)[], shown?: Parameters<typeof toWire>[1]): Promise<object[]> {
  const all = await inTurns(ports.turn, digests.flatMap((digest) => digest?.engines ?? []), (engine) => toWire(engine, shown))
  return catalog.routes.map((route, at) => poolView(route, digests[at]!, all))
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
  ...(import.meta.bare ? {} : { replicas: digests.find((digest) => digest !== null)?.replicas }),
})
