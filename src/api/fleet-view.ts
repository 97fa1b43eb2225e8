import type { EngineDigest, PoolDigest } from '../core/contract/pool-digest.ts'
import type { RegionStatus } from '../core/contract/region-status.ts'
import { mapYielding } from '../map-yielding.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import { toSnakeCase } from '../snake-case.ts'
import { VERSION } from '../version.ts'
import type { Config } from '../config.ts'
import type { WorkerGroup } from './worker-group.ts'
import type { FleetParts } from './fleet-digests.ts'
import type { GatewayStatus } from './gateway-status.ts'
import type { EngineView, UnknownEngineView } from './openapi/engine.ts'
import type { CapacityErrorView, CapacityView, FleetView, PoolView, RegionView, ReplicaView } from './openapi/fleet.ts'
import type { AllFields } from './openapi/view.ts'

interface FleetState {
  /** In the order of the routes. */
  readonly digests: readonly (PoolDigest | null)[]
  readonly regions: readonly (RegionStatus | null)[]
}

/** Without what this gateway alone knows of the pool. */
type PoolStateView = Omit<PoolView, 'lookups' | 'region_engines'>

/** Fields that a pool has even if its state cannot be read. */
type SettingsField = 'cluster' | 'region' | 'model' | 'aliases' | 'adapters' | 'policy' | 'slo' | 'gateway'

/** Fields that only the state of a pool has. */
type StateField = 'queue' | 'capacity' | 'capacity_error' | 'at' | 'seq' | 'config_version'

/** Pools for operators. `convertNumber` as in `toSnakeCase`. */
export async function poolViews(
  { ports, models }: Pick<FleetParts, 'ports' | 'models'>,
  { digests, regions }: FleetState,
  convertNumber?: Parameters<typeof toSnakeCase>[1],
): Promise<PoolStateView[]> {
  const all: EngineView[] = await mapYielding(
    ports.yieldToEventLoop,
    digests.flatMap((digest, at) => (digest?.engines ?? []).map((engine) => withRegion(engine, regions[at] ?? null))),
    (engine) => toSnakeCase(engine, convertNumber),
  )
  return models.routes.map((route, at) => {
    const gateway: RegionView | undefined =
      route.cluster.gateway === null ? undefined : toSnakeCase(regions[at] ?? null, convertNumber)
    return poolView(route, digests[at]!, { engines: all, gateway })
  })
}

/** A gateway that is unreachable, or has no engine, serves nothing, whatever the ledger here last knew. */
function withRegion(engine: EngineDigest, region: RegionStatus | null): EngineDigest {
  if (region === null || (region.reachable && region.engines > 0)) return engine
  return { ...engine, available: false, healthy: region.reachable && engine.healthy }
}

const sloFields = ({ slo }: PoolRoute['pool']): PoolView['slo'] =>
  slo === null ? null : { ttft_ms: slo.ttftMs, ttft_ms_per_1k_tokens: slo.ttftMsPer1kTokens, itl_ms: slo.itlMs }

interface ViewParts {
  /** Starts with the pool's engines, which are removed from it. */
  readonly engines: EngineView[]
  /** undefined: the pool is behind no other gateway. */
  readonly gateway: RegionView | undefined
}

function poolView(
  { cluster, pool }: PoolRoute,
  digest: PoolDigest | null,
  { engines, gateway }: ViewParts,
): PoolStateView {
  const settings: AllFields<Pick<PoolView, SettingsField>> = {
    cluster: cluster.id,
    region: cluster.region,
    model: pool.model,
    aliases: pool.aliases,
    adapters: [...pool.adapters, ...new Set(digest?.engines.flatMap((engine) => engine.loadedAdapters ?? []))],
    policy: pool.policy.name,
    slo: sloFields(pool),
    gateway,
  }
  return { ...settings, ...(digest === null ? unreachable(pool) : reachable(digest, engines)) }
}

/** Fields of a pool whose state was read. `engines` as in ViewParts. */
function reachable(digest: PoolDigest, engines: EngineView[]): AllFields<Omit<PoolStateView, SettingsField>> {
  const { bookings, queue, at, seq, configVersion } = digest
  const capacity: readonly CapacityView[] | undefined = digest.capacity && toSnakeCase(digest.capacity)
  const capacityError: CapacityErrorView | undefined = digest.capacityError
  return {
    reachable: true,
    bookings,
    queue: queue && { requests: queue.requests, oldest_ms: queue.oldestMs },
    capacity,
    capacity_error: capacityError,
    at,
    seq,
    config_version: configVersion,
    engines: engines.splice(0, digest.engines.length),
  }
}

/** Fields of a pool whose state cannot be read. */
const unreachable = ({ engines }: PoolRoute['pool']): AllFields<Omit<PoolStateView, SettingsField | StateField>> => ({
  reachable: false,
  bookings: null,
  engines: engines.map(({ id, role }): UnknownEngineView => ({ id, role, available: null })),
})

export interface GatewayViewParts {
  readonly config: Pick<Config, 'version'>
  /** Start of the first gateway here, ms since the epoch. */
  readonly startedAt: number
  readonly status: GatewayStatus
  readonly workerGroup: Pick<WorkerGroup, 'startedAt' | 'hub'> | null
}

/** State of the gateway itself. All pools have the same information about replicas. */
export const gatewayView = (
  { config, startedAt, status, workerGroup }: GatewayViewParts,
  digests: readonly (PoolDigest | null)[],
): AllFields<Omit<FleetView, 'placement' | 'pools'>> => {
  const replicas: readonly ReplicaView[] | undefined = digests.find((digest) => digest !== null)?.replicas
  return {
    version: VERSION,
    config_version: config.version,
    started_at: workerGroup?.startedAt ?? startedAt,
    shared: workerGroup?.hub?.view.shared,
    isolates: workerGroup?.hub?.view.isolates,
    draining: status.draining,
    config_refused_at: status.configRefusedAt ?? undefined,
    replicas,
  }
}
