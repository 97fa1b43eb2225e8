import type { Decision } from '../core/contract/decision.ts'
import type { PoolSummary } from '../core/contract/pool-digest.ts'
import { bookingKey } from '../core/pool/bookings.ts'
import { poolOf, type PoolRoute } from '../origin/pool-route.ts'
import { toSnakeCase } from '../snake-case.ts'
import { withDeadline } from '../timeout.ts'
import type { FleetHistory } from '../core/reports/fleet-history.ts'
import type { Ports } from '../ports.ts'
import { gatewayView, type GatewayViewParts, poolViews } from './fleet-view.ts'
import { type FleetParts, redactRegional, regionsOf } from './fleet-digests.ts'
import { mapYielding } from '../map-yielding.ts'
import type { GatewayCounts, WorkerGroup } from './worker-group.ts'
import { aggregateCounts, type CountParts } from './group-queries.ts'

/** Parts of the gateway that a view needs. */
export interface SnapshotParts
  extends FleetParts, Omit<GatewayViewParts, 'workerGroup'>, Omit<CountParts, 'workerGroup'> {
  readonly ports: FleetParts['ports'] & Pick<Ports, 'now'>
  readonly workerGroup: Pick<WorkerGroup, 'ask' | 'startedAt' | 'hub'> | null
  /** History of the pools. */
  readonly history: FleetHistory
}

const DECISIONS = 60

/** Time limit, ms: a later object is shown as unreachable, so that it does not delay the view. */
const ANSWER_MS = 5_000

/** Rounds to five digits, which shortens frequent views by a third. */
const roundBriefly = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(5)))

/**
 * Snapshot of the whole fleet for the dashboard: pools as in `/v1/firstlight/fleet`, the latest TTFTs, and the latest
 * decisions: the newest ones, and those with the latest first tokens, since many requests may start during one stream.
 */
export async function dashboardSnapshot(parts: SnapshotParts): Promise<unknown> {
  const { ports, models } = parts
  let decisions: readonly Decision[] = []
  let measured: readonly Decision[] = []
  const share = Math.ceil(DECISIONS / models.routes.length)
  const digests = await mapYielding(ports.yieldToEventLoop, models.routes, async (route) => {
    const poolSummary = await summaryOf(parts, route)
    if (poolSummary !== null) {
      decisions = [...decisions, ...poolSummary.decisions].sort((a, b) => b.at - a.at).slice(0, DECISIONS)
      measured = [...measured, ...(poolSummary.measured ?? []).slice(0, share)]
    }
    return poolSummary && redactRegional(route, poolSummary.digest)
  })
  // The next snapshot has what is requested after this one.
  const regions = await regionsOf(parts, false)
  return {
    ...gatewayView(parts, digests),
    at: ports.now(),
    pools: await poolViews(parts, { digests, regions }, roundBriefly),
    ...(await trafficViews(parts)),
    decisions: distinct([...decisions, ...measured]).map(summary),
  }
}

async function trafficViews(parts: SnapshotParts): Promise<object> {
  const counts = await aggregateCounts(parts)
  const { steps, from, stepMs, now, stages, ttftErrors } = parts.history.view(counts.ended ?? {}, parts.ports.now())
  return {
    traffic: trafficOf(counts),
    now: toSnakeCase(now, roundBriefly),
    history: { step_ms: stepMs, from, ...(toSnakeCase(steps, roundBriefly) as object) },
    stages: toSnakeCase(stages, roundBriefly),
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

async function summaryOf({ ports, history }: SnapshotParts, route: PoolRoute): Promise<PoolSummary | null> {
  const { cluster, pool } = route
  const object = poolOf(ports, route)
  const key = `${cluster.id}\n${pool.model}`
  try {
    const poolSummary: PoolSummary = await withDeadline(
      ANSWER_MS,
      object.overview === undefined
        ? object.digest().then((digest) => ({ digest, decisions: [] }))
        : object.overview.summary(DECISIONS, history.since(key)),
    )
    if (poolSummary.history !== undefined) history.add(key, poolSummary.history, ports.now())
    return poolSummary
  } catch (error) {
    ports.log.warn('view_failed', { cluster: cluster.id, pool: pool.model, error })
    return null
  }
}

/** A decision without its candidates, which `/v1/firstlight/decisions/{id}` has. */
const summary = ({ candidates: _candidates, excluded, ...decision }: Decision): unknown =>
  toSnakeCase({ ...decision, excluded: excluded.length }, roundBriefly)
