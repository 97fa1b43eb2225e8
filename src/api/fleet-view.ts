import { withDeadline } from '../timeout.ts'
import type { ClusterDigest, EngineDigest, ClusterSummary, Decision } from '../core/contract/contract.ts'
import { bookingKey } from '../core/pool/bookings.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import type { RegionStatus } from '../origin/regions/client.ts'
import type { GatewayContext } from './context.ts'
import { mapYielding } from './map-yielding.ts'
import { VERSION } from './version.ts'
import { aggregateCounts, type GatewayCounts } from './worker-group.ts'
import { toSnakeCase } from '../config.ts'

/** Digests of all cluster objects, in the order of the routes. null: unreachable; the log has the cause. */
export function digestsOf({
  ports,
  catalog,
}: Pick<GatewayContext, 'ports' | 'catalog'>): Promise<(ClusterDigest | null)[]> {
  return mapYielding(ports.yieldToEventLoop, catalog.routes, async (route) => {
    const { cluster, pool } = route
    try {
      const object = ports.cluster(cluster.id, pool.model)
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
export function redactRegional({ cluster }: PoolRoute, digest: ClusterDigest): ClusterDigest {
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
  { ports, catalog, digests }: Pick<GatewayContext, 'ports' | 'catalog' | 'digests'>,
  waits: boolean,
): Promise<(RegionStatus | null)[]> {
  return mapYielding(ports.yieldToEventLoop, catalog.routes, (route) => digests.regionStatus(route, waits))
}

export interface PoolsSeen {
  /** In the order of the routes. */
  readonly digests: readonly (ClusterDigest | null)[]
  readonly regions: readonly (RegionStatus | null)[]
}

/** Pools for operators. `shown` as in `toWire`. */
export async function poolViews(
  { ports, catalog }: Pick<GatewayContext, 'ports' | 'catalog'>,
  { digests, regions }: PoolsSeen,
  shown?: Parameters<typeof toSnakeCase>[1],
): Promise<object[]> {
  const all = await mapYielding(
    ports.yieldToEventLoop,
    digests.flatMap((digest) => digest?.engines ?? []),
    (engine) => toSnakeCase(engine, shown),
  )
  return catalog.routes.map((route, at) => ({
    ...poolView(route, digests[at]!, all),
    ...(route.cluster.gateway === null ? {} : { gateway: toSnakeCase(regions[at], shown) }),
  }))
}

const sloView = ({ slo }: PoolRoute['pool']) =>
  slo === null ? null : { ttft_ms: slo.ttftMs, ttft_ms_per_1k_tokens: slo.ttftMsPer1kTokens, itl_ms: slo.itlMs }

/** `wired`: starts with the pool's engines, which are removed from it. */
function poolView({ cluster, pool }: PoolRoute, digest: ClusterDigest | null, wired: unknown[]): object {
  const view = {
    cluster: cluster.id,
    region: cluster.region,
    model: pool.model,
    aliases: pool.aliases,
    adapters: pool.adapters,
    policy: pool.policy.name,
    slo: sloView(pool),
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
    engines: wired.splice(0, engines.length),
  }
}

/** State of the gateway itself. All pools have the same information about replicas. */
export const gatewayView = (
  context: Pick<GatewayContext, 'config' | 'configRefusedAt' | 'startedAt' | 'draining' | 'shared'>,
  digests: readonly (ClusterDigest | null)[],
) => ({
  version: VERSION,
  config_version: context.config.version,
  started_at: context.shared?.startedAt ?? context.startedAt,
  ...context.shared?.view,
  draining: context.draining,
  ...(context.configRefusedAt === null ? {} : { config_refused_at: context.configRefusedAt }),
  replicas: digests.find((digest) => digest !== null)?.replicas,
})

/** Parts of the gateway that a view needs. */
export type Watched = Pick<
  GatewayContext,
  | 'ports'
  | 'catalog'
  | 'digests'
  | 'config'
  | 'configRefusedAt'
  | 'startedAt'
  | 'draining'
  | 'retired'
  | 'shared'
  | 'telemetry'
  | 'lookups'
  | 'recent'
  | 'usage'
  | 'history'
>

const DECISIONS = 60
/** Time limit, ms: a later object is shown as unreachable, so that it does not delay the view. */
const ANSWER_MS = 5_000

/** Rounds to five digits, which shortens frequent views by a third. */
const brief = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(5)))

/**
 * Snapshot of the whole fleet for the dashboard: pools as in `/v1/firstlight/fleet`, the latest TTFTs, and the latest
 * decisions: the newest ones, and those with the latest first tokens, since many requests may start during one stream.
 */
export async function dashboardSnapshot(context: Watched): Promise<unknown> {
  const { ports, catalog } = context
  let decisions: readonly Decision[] = []
  let measured: readonly Decision[] = []
  const share = Math.ceil(DECISIONS / catalog.routes.length)
  const digests = await mapYielding(ports.yieldToEventLoop, catalog.routes, async (route) => {
    const seen = await summaryOf(context, route)
    if (seen !== null) {
      decisions = [...decisions, ...seen.decisions].sort((a, b) => b.at - a.at).slice(0, DECISIONS)
      measured = [...measured, ...(seen.measured ?? []).slice(0, share)]
    }
    return seen && redactRegional(route, seen.digest)
  })
  // The next snapshot has what is requested after this one.
  const regions = await regionsOf(context, false)
  return {
    ...gatewayView(context, digests),
    at: ports.now(),
    pools: await poolViews(context, { digests, regions }, brief),
    ...(await trafficViews(context)),
    decisions: distinct([...decisions, ...measured]).map(summary),
  }
}

async function trafficViews(context: Watched): Promise<object> {
  const counts = await aggregateCounts(context)
  const { steps, from, stepMs, now, stages, ttftErrors } = context.history.view(counts.ended ?? {}, context.ports.now())
  return {
    traffic: trafficOf(counts),
    now: toSnakeCase(now, brief),
    history: { step_ms: stepMs, from, ...(toSnakeCase(steps, brief) as object) },
    stages: toSnakeCase(stages, brief),
    ttft_errors: ttftErrors,
  }
}

/** Totals of all gateways that serve this address. */
const trafficOf = ({ usage, refusals }: GatewayCounts) => ({
  output_tokens_total: Object.values(usage).reduce((sum, { outputTokens }) => sum + outputTokens, 0),
  rejected_total: refusals,
})

/** Each attempt once, newest first. */
function distinct(decisions: readonly Decision[]): Decision[] {
  const byKey = new Map(decisions.map((decision) => [bookingKey(decision), decision]))
  return [...byKey.values()].sort((a, b) => b.at - a.at)
}

async function summaryOf({ ports, history }: Watched, { cluster, pool }: PoolRoute): Promise<ClusterSummary | null> {
  const object = ports.cluster(cluster.id, pool.model)
  const key = `${cluster.id}\n${pool.model}`
  try {
    const seen: ClusterSummary = await withDeadline(
      ANSWER_MS,
      object.summary === undefined
        ? object.digest().then((digest) => ({ digest, decisions: [] }))
        : object.summary(DECISIONS, history.since(key)),
    )
    if (seen.history !== undefined) history.add(key, seen.history, ports.now())
    return seen
  } catch (error) {
    ports.log.warn('view_failed', { cluster: cluster.id, pool: pool.model, error })
    return null
  }
}

/** A decision without its candidates, which `/v1/firstlight/decisions/{id}` has. */
const summary = ({ candidates: _candidates, excluded, ...decision }: Decision): unknown =>
  toSnakeCase({ ...decision, excluded: excluded.length }, brief)
