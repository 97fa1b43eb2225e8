/** Gateways that serve one address together: the I/O threads of a Node process, or the isolates of a Worker. */
import type { BudgetCounts } from './core/budgets/budget-counts.ts'
import type { CostTotals } from './core/cost/cost-usage.ts'
import type { UsageByKey } from './core/limits/key-usage.ts'
import type { EndedByStep } from './core/reports/ended-history.ts'
import type { CountsByTarget } from './core/traffic/target-counts.ts'
import type { FleetProbe } from './origin/probes/fleet-probe.ts'
import type { PoolLookupCounts } from './origin/lmcache/cache-lookups.ts'
import type { FencedEngines } from './origin/pause/running-bookings.ts'
import type { RequestScope } from './ports/request-scope.ts'
import type { RecentRequest } from './core/reports/recent-request.ts'

/**
 * `counts` returns GatewayCounts; `exemplars` ExemplarsBySeries; `request` a RecentRequest, or null; `fence` the number
 * of answers that it ended.
 */
export type GroupQuery =
  | { readonly about: 'counts' }
  | { readonly about: 'exemplars' }
  | { readonly about: 'request'; readonly id: string }
  | { readonly about: 'fence'; readonly fenced: FencedEngines }

/** Interface of a gateway to the other threads. */
export interface WorkerGroup {
  /** Queries all others. Leaves out those that do not answer in time; never rejects. */
  ask(query: GroupQuery): Promise<readonly unknown[]>
  /** One thread probes the engines for all. Absent: each gateway probes. */
  readonly prober?: Pick<FleetProbe, 'round' | 'probeSoon'>
  /** Start of the first gateway, ms since the epoch. May fall when an earlier one becomes known. */
  readonly startedAt: number
  /** Records a request that has ended. Absent: the others ask for it. */
  ended?(request: RecentRequest, scope: RequestScope): void
  /** Server-sent events of the fleet's views for all gateways. null: unavailable. Absent: each gateway has its own. */
  live?(lastEventId: string | null): Promise<ReadableStream<Uint8Array> | null>
  /** Fields for views of the fleet. Absent: none. */
  readonly view?: GroupView
}

/** Connection of a Worker's isolates, for views. */
export interface GroupView {
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
