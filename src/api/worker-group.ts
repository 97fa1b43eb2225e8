/** Gateways that serve one address together: the I/O threads of a Node process, or the isolates of a Worker. */
import type { BudgetCounts } from '../core/budgets/budget-counts.ts'
import type { CostTotals } from '../core/cost/cost-usage.ts'
import type { UsageByKey } from '../core/limits/key-usage.ts'
import type { EndedByStep } from '../core/reports/ended-history.ts'
import type { CountsByTarget } from '../core/traffic/target-counts.ts'
import type { FleetProbe } from '../origin/probes/fleet-probe.ts'
import type { PoolLookupCounts } from '../origin/lmcache/cache-lookups.ts'
import type { FencedEngines } from '../origin/pause/running-bookings.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { RecentRequest } from '../core/reports/recent-request.ts'

/**
 * `counts` returns GatewayCounts; `exemplars` ExemplarsBySeries; `request` a RecentRequest, or null; `fence` the number
 * of answers that it ended.
 */
export type GroupQuery =
  | { readonly about: 'counts' }
  | { readonly about: 'exemplars' }
  | { readonly about: 'request'; readonly id: string }
  | { readonly about: 'fence'; readonly fenced: FencedEngines }

/** The other gateways of the group, as one of them sees them. */
export interface WorkerGroup {
  /** Queries all others. Leaves out those that do not answer in time; never rejects. */
  ask(query: GroupQuery): Promise<readonly unknown[]>
  /** Start of the first gateway, ms since the epoch. May fall when an earlier one becomes known. */
  readonly startedAt: number
  /** Probes the engines for all: that of the main thread. null: each gateway probes. */
  readonly prober: Pick<FleetProbe, 'round' | 'probeSoon'> | null
  /** null: each gateway has its own requests and views. */
  readonly hub: GroupHub | null
}

/** Has the requests and the views of all gateways: the object that the isolates of a Worker share. */
export interface GroupHub {
  /** Records a request that has ended. */
  ended(request: RecentRequest, scope: RequestScope): void
  /** Server-sent events of the fleet's views for all gateways. null: unavailable. */
  live(lastEventId: string | null): Promise<ReadableStream<Uint8Array> | null>
  /** Connection to it, for views of the fleet. */
  readonly view: HubView
}

export interface HubView {
  /** State is shared with the other isolates. */
  readonly shared: boolean
  /** Number of isolates that reported. */
  readonly isolates: number
}

/** Counters of one gateway. */
export interface GatewayCounts {
  readonly droppedRecords: number
  readonly droppedSpans: number
  readonly refusals: Readonly<Record<string, number>>
  readonly usage: UsageByKey
  /** Absent: no pool counts costs. */
  readonly costs?: CostTotals
  /** Warnings and refusals by account. Absent: no key or team has a budget. */
  readonly budgets?: BudgetCounts
  /** By pool, in the order of the configuration. null: the pool has no lookups. */
  readonly lookups: readonly (PoolLookupCounts | null)[]
  /** Absent: there are no weighted models. */
  readonly targets?: CountsByTarget
  /** Absent: there is no mirror traffic. */
  readonly mirrors?: CountsByTarget
  /** Absent from older isolates. */
  readonly ended?: EndedByStep
}
