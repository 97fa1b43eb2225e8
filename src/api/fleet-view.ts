import type { EngineDigest, PoolDigest } from '../core/contract/pool-digest.ts'
import type { RegionStatus } from '../core/contract/region-status.ts'
import { mapYielding } from '../map-yielding.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import { toSnakeCase } from '../snake-case.ts'
import { VERSION } from '../version.ts'
import type { Config } from '../config.ts'
import type { WorkerGroup } from '../worker-group.ts'
import type { FleetParts } from './fleet-digests.ts'
import type { GatewayStatus } from './gateway-status.ts'

interface FleetState {
  /** In the order of the routes. */
  readonly digests: readonly (PoolDigest | null)[]
  readonly regions: readonly (RegionStatus | null)[]
}

/** Pools for operators. `convertNumber` as in `toSnakeCase`. */
export async function poolViews(
  { ports, models }: Pick<FleetParts, 'ports' | 'models'>,
  { digests, regions }: FleetState,
  convertNumber?: Parameters<typeof toSnakeCase>[1],
): Promise<object[]> {
  const all = await mapYielding(
    ports.yieldToEventLoop,
    digests.flatMap((digest, at) => (digest?.engines ?? []).map((engine) => withRegion(engine, regions[at] ?? null))),
    (engine) => toSnakeCase(engine, convertNumber),
  )
  return models.routes.map((route, at) => ({
    ...poolView(route, digests[at]!, all),
    ...(route.cluster.gateway === null ? {} : { gateway: toSnakeCase(regions[at], convertNumber) }),
  }))
}

/** A gateway that is unreachable, or has no engine, serves nothing, whatever the ledger here last knew. */
function withRegion(engine: EngineDigest, region: RegionStatus | null): EngineDigest {
  if (region === null || (region.reachable && region.engines > 0)) return engine
  return { ...engine, available: false, healthy: region.reachable && engine.healthy }
}

const sloFields = ({ slo }: PoolRoute['pool']) =>
  slo === null ? null : { ttft_ms: slo.ttftMs, ttft_ms_per_1k_tokens: slo.ttftMsPer1kTokens, itl_ms: slo.itlMs }

/** `encodedEngines`: starts with the pool's engines, which are removed from it. */
function poolView({ cluster, pool }: PoolRoute, digest: PoolDigest | null, encodedEngines: unknown[]): object {
  const view = {
    cluster: cluster.id,
    region: cluster.region,
    model: pool.model,
    aliases: pool.aliases,
    adapters: [...pool.adapters, ...new Set(digest?.engines.flatMap((engine) => engine.loadedAdapters ?? []))],
    policy: pool.policy.name,
    slo: sloFields(pool),
  }
  if (digest === null) {
    return {
      ...view,
      reachable: false,
      bookings: null,
      engines: pool.engines.map(({ id, role }) => ({ id, role, available: null })),
    }
  }
  const { bookings, queue, capacity, capacityError, at, seq, configVersion, engines } = digest
  return {
    ...view,
    reachable: true,
    bookings,
    ...(queue === undefined ? {} : { queue: { requests: queue.requests, oldest_ms: queue.oldestMs } }),
    ...(capacity === undefined ? {} : { capacity: toSnakeCase(capacity) }),
    ...(capacityError === undefined ? {} : { capacity_error: capacityError }),
    at,
    seq,
    config_version: configVersion,
    engines: encodedEngines.splice(0, engines.length),
  }
}

export interface GatewayViewParts {
  readonly config: Pick<Config, 'version'>
  readonly status: GatewayStatus
  readonly workerGroup: Pick<WorkerGroup, 'startedAt' | 'view'> | null
}

/** State of the gateway itself. All pools have the same information about replicas. */
export const gatewayView = (
  { config, status, workerGroup }: GatewayViewParts,
  digests: readonly (PoolDigest | null)[],
) => ({
  version: VERSION,
  config_version: config.version,
  started_at: workerGroup?.startedAt ?? status.startedAt,
  ...workerGroup?.view,
  draining: status.draining,
  ...(status.configRefusedAt === null ? {} : { config_refused_at: status.configRefusedAt }),
  replicas: digests.find((digest) => digest !== null)?.replicas,
})
