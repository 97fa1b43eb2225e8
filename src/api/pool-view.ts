import type { ClusterDigest } from '../core/cluster/contract.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import type { Door } from './door.ts'
import { VERSION } from './version.ts'
import { toWire } from './wire.ts'

/** A pool as operators see it; `digest` null: its object could not be reached. */
export function poolView({ cluster, pool }: PoolRoute, digest: ClusterDigest | null): Record<string, unknown> {
  const view = { cluster: cluster.id, region: cluster.region, model: pool.model, aliases: pool.aliases, adapters: pool.adapters, policy: pool.policy.name }
  if (digest === null) {
    return { ...view, reachable: false, bookings: null, engines: pool.engines.map(({ id, role }) => ({ id, role, available: null })) }
  }
  const { bookings, at, seq, configVersion, engines } = digest
  return { ...view, reachable: true, bookings, at, seq, config_version: configVersion, engines: toWire(engines) }
}

/** What is true of the gateway itself. */
export const gatewayView = (door: Pick<Door, 'config' | 'startedAt' | 'draining'>) => ({
  version: VERSION,
  config_version: door.config.version,
  started_at: door.startedAt,
  draining: door.draining,
})
