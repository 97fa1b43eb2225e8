/** Queries that collect what each gateway of a worker group counts. */
import type { Totals } from '../core/edge/sync.ts'
import { sumTotals } from '../core/edge/totals.ts'
import { sumCosts } from '../core/cost/cost-usage.ts'
import { sumUsage } from '../core/limits/key-usage.ts'
import type { EndedByStep } from '../core/reports/ended-history.ts'
import { sumCounts } from './sum-counts.ts'
import type { CacheLookups, PoolLookupCounts } from '../origin/lmcache/cache-lookups.ts'
import type { KeyUsage } from '../core/limits/key-usage.ts'
import { type ExemplarsBySeries, newestExemplars } from '../telemetry/exemplars.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { runningBookings } from '../origin/pause/running-bookings.ts'
import type { Ports } from '../ports.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { WeightedModels } from './weighted-models.ts'
import type { MirrorCounts } from '../core/traffic/mirror-counts.ts'
import type { CountsByTarget } from '../core/traffic/target-counts.ts'
import type { Budgets } from './budgets.ts'
import type { RequestCosts } from './request-costs.ts'
import type { RequestHistory } from './request-history.ts'
import type { RecentRequest } from '../core/reports/recent-request.ts'
import type { GatewayCounts, GroupQuery, WorkerGroup } from './worker-group.ts'

export interface CountParts {
  readonly telemetry: Telemetry
  /** null: no pool has lookups. */
  readonly lookups: Pick<CacheLookups, 'counts'> | null
  readonly models: Pick<ModelRegistry, 'routes'>
  readonly recent: RequestHistory
  /** null: this gateway alone serves its address. */
  readonly workerGroup: Pick<WorkerGroup, 'ask'> | null
  readonly usage: KeyUsage
  /** null: no key or team has a budget. */
  readonly budgets: Pick<Budgets, 'counts' | 'read'> | null
  /** null: no pool counts costs. */
  readonly costs: Pick<RequestCosts, 'totals'> | null
  /** null: there are no weighted models. */
  readonly weighted: WeightedModels | null
  /** null: there is no mirror traffic. */
  readonly mirrorCounts: Pick<MirrorCounts, 'counts'> | null
}

/** Answers a query of another gateway of the group. */
export async function answerGroupQuery(
  parts: CountParts & { readonly ports: Pick<Ports, 'origin'> },
  query: GroupQuery,
): Promise<GatewayCounts | ExemplarsBySeries | RecentRequest | number | null> {
  if (query.about === 'exemplars') return parts.telemetry.exemplars.list()
  if (query.about === 'request') return parts.recent.find(query.id)
  if (query.about === 'fence') return runningBookings(parts.ports.origin).fence(query.fenced)
  return countsOf(parts)
}

async function countsOf(parts: CountParts): Promise<GatewayCounts> {
  // The counts include the rollups of ended requests.
  await parts.telemetry.flush()
  const { droppedRecords, droppedSpans, refusals } = parts.telemetry
  return {
    droppedRecords,
    droppedSpans,
    refusals,
    usage: parts.usage.list(),
    ...(parts.budgets === null ? {} : { budgets: parts.budgets.counts }),
    ...(parts.costs === null ? {} : { costs: parts.costs.totals() }),
    lookups: parts.models.routes.map((route) => parts.lookups?.counts(route) ?? null),
    ended: parts.telemetry.endedHistory.byStep(),
    ...(parts.weighted === null ? {} : { targets: parts.weighted.counts }),
    ...(parts.mirrorCounts === null ? {} : { mirrors: parts.mirrorCounts.counts }),
  }
}

/** Sums the counts of all gateways of the group. */
export async function aggregateCounts(parts: CountParts): Promise<GatewayCounts> {
  const own = countsOf(parts)
  const others = (parts.workerGroup?.ask({ about: 'counts' }) ?? []) as
    | readonly GatewayCounts[]
    | Promise<readonly GatewayCounts[]>
  return (await others).reduce(sum, await own)
}

/** Exemplars of all threads. Isolates return none. */
export async function collectExemplars({ telemetry, workerGroup }: CountParts): Promise<ExemplarsBySeries> {
  const others = (await workerGroup?.ask({ about: 'exemplars' })) ?? []
  return newestExemplars([telemetry.exemplars.list(), ...(others as readonly ExemplarsBySeries[])])
}

/** Flushes ended requests of all gateways, so that the next read includes them. */
export async function flushGroup(parts: CountParts): Promise<void> {
  await aggregateCounts(parts)
}

/** Finds a recent request of any gateway of the group. */
export async function findRequestInGroup(parts: CountParts, id: string): Promise<RecentRequest | null> {
  const own = parts.recent.find(id)
  if (own !== null || parts.workerGroup === null) return own
  const others = (await parts.workerGroup.ask({ about: 'request', id })) as readonly (RecentRequest | null)[]
  return others.find((found) => found !== null) ?? null
}

const sum = (a: GatewayCounts, b: GatewayCounts): GatewayCounts => ({
  droppedRecords: a.droppedRecords + b.droppedRecords,
  droppedSpans: a.droppedSpans + b.droppedSpans,
  refusals: Object.fromEntries(
    Object.keys({ ...a.refusals, ...b.refusals }).map((reason) => [
      reason,
      (a.refusals[reason] ?? 0) + (b.refusals[reason] ?? 0),
    ]),
  ),
  usage: sumUsage(a.usage, b.usage),
  ...(a.costs === undefined || b.costs === undefined
    ? costsOf(a.costs ?? b.costs)
    : costsOf(sumCosts(a.costs, b.costs))),
  ...budgetsOf(a.budgets, b.budgets),
  lookups: a.lookups.map((counts, at) => sumLookups(counts, b.lookups[at] ?? null)),
  ...(a.targets === undefined && b.targets === undefined ? {} : { targets: sumTargets(a.targets, b.targets) }),
  ...(a.mirrors === undefined && b.mirrors === undefined ? {} : { mirrors: sumTargets(a.mirrors, b.mirrors) }),
  ended: sumTotals(a.ended ?? {}, b.ended ?? {}) as unknown as EndedByStep,
})

const budgetsOf = (a: GatewayCounts['budgets'], b: GatewayCounts['budgets']): Pick<GatewayCounts, 'budgets'> => {
  const all = [a, b].filter((counts) => counts !== undefined)
  if (all.length === 0) return {}
  return {
    budgets: {
      warned: sumCounts(all.map(({ warned }) => warned)),
      refused: sumCounts(all.map(({ refused }) => refused)),
    },
  }
}

const costsOf = (costs: GatewayCounts['costs']): Pick<GatewayCounts, 'costs'> => (costs === undefined ? {} : { costs })

/** Adds two sets of counters. Gateways without lookups have none. */
function sumLookups(a: PoolLookupCounts | null, b: PoolLookupCounts | null): PoolLookupCounts | null {
  if (a === null || b === null) return a ?? b
  const { skipped: skippedByA, ...ended } = a
  const { skipped: skippedByB, ...endedByB } = b
  return { ...sumCounts([ended, endedByB]), skipped: sumCounts([skippedByA, skippedByB]) }
}

const sumTargets = (a: CountsByTarget = {}, b: CountsByTarget = {}): CountsByTarget =>
  sumTotals(a as unknown as Totals, b as unknown as Totals) as unknown as CountsByTarget
