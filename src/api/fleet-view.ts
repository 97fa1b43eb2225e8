import type { EngineDigest, PoolDigest } from '../core/contract/pool-digest.ts'
import type { RegionStatus } from '../core/contract/region-status.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import { toSnakeCase } from '../snake-case.ts'
import type { GatewayContext } from './context.ts'
import { mapYielding } from '../map-yielding.ts'
import { VERSION } from '../version.ts'

/** Digests of all pools, in the order of the routes. null: unreachable; the log has the cause. */
export function digestsOf({ ports, models }: Pick<GatewayContext, 'ports' | 'models'>): Promise<(PoolDigest | null)[]> {
  return mapYielding(ports.yieldToEventLoop, models.routes, async (route) => {
    const { cluster, pool } = route
    try {
      const object = ports.pool(cluster.id, pool.model)
      return redactRegional(route, await (object.fleetDigest?.() ?? object.digest()))
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
  'requests',
  'ttftMs',
  'requestsTotal',
  'failuresTotal',
  'countedBefore',
  'recentTtftMs',
  'hitRate',
] as const satisfies readonly (keyof EngineDigest)[]

// Digests of older objects lack newer fields.
const ownEnginesOnly = (engine: EngineDigest): EngineDigest =>
  Object.fromEntries(
    EDGE_FIELDS.filter((field) => field in engine).map((field) => [field, engine[field]]),
  ) as unknown as EngineDigest

/** Status of the gateways of clusters, in the order of the routes. */
export function regionsOf(
  { ports, models, digests }: Pick<GatewayContext, 'ports' | 'models' | 'digests'>,
  waits: boolean,
): Promise<(RegionStatus | null)[]> {
  return mapYielding(ports.yieldToEventLoop, models.routes, (route) => digests.regionStatus(route, waits))
}

interface FleetState {
  /** In the order of the routes. */
  readonly digests: readonly (PoolDigest | null)[]
  readonly regions: readonly (RegionStatus | null)[]
}

/** Pools for operators. `convertNumber` as in `toSnakeCase`. */
export async function poolViews(
  { ports, models }: Pick<GatewayContext, 'ports' | 'models'>,
  { digests, regions }: FleetState,
  convertNumber?: Parameters<typeof toSnakeCase>[1],
): Promise<object[]> {
  const all = await mapYielding(
    ports.yieldToEventLoop,
    digests.flatMap((digest) => digest?.engines ?? []),
    (engine) => toSnakeCase(engine, convertNumber),
  )
  return models.routes.map((route, at) => ({
    ...poolView(route, digests[at]!, all),
    ...(route.cluster.gateway === null ? {} : { gateway: toSnakeCase(regions[at], convertNumber) }),
  }))
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
    adapters: pool.adapters,
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
  const { bookings, queue, at, seq, configVersion, engines } = digest
  return {
    ...view,
    reachable: true,
    bookings,
    ...(queue === undefined ? {} : { queue: { requests: queue.requests, oldest_ms: queue.oldestMs } }),
    at,
    seq,
    config_version: configVersion,
    engines: encodedEngines.splice(0, engines.length),
  }
}

/** State of the gateway itself. All pools have the same information about replicas. */
export const gatewayView = (
  context: Pick<GatewayContext, 'config' | 'configRefusedAt' | 'startedAt' | 'draining' | 'shared'>,
  digests: readonly (PoolDigest | null)[],
) => ({
  version: VERSION,
  config_version: context.config.version,
  started_at: context.shared?.startedAt ?? context.startedAt,
  ...context.shared?.view,
  draining: context.draining,
  ...(context.configRefusedAt === null ? {} : { config_refused_at: context.configRefusedAt }),
  replicas: digests.find((digest) => digest !== null)?.replicas,
})
