/** Kinds of metrics: where a value comes from and which labels it has. */
import type { RoleCapacity } from '../core/contract/pool-capacity.ts'
import type { DecisionCount, EngineDigest, PoolDigest, ReplicaDigest } from '../core/contract/pool-digest.ts'
import type { RegionStatus } from '../core/contract/region-status.ts'
import type { CountsByTarget, TargetCounts } from '../core/traffic/target-counts.ts'
import type { BudgetCounts } from '../core/budgets/budget-counts.ts'
import type { CostTotals } from '../core/cost/cost-usage.ts'
import type { UsageByKey } from '../core/limits/key-usage.ts'
import type { DashboardRow } from './dashboard-row.ts'

interface MetricBase {
  readonly name: string
  /** Help text. */
  readonly help: string
  /** Row of the Grafana dashboard that shows it; absent: it is not shown. */
  readonly row?: DashboardRow
}

/** One value per engine, from the digest; null: unknown, no sample. */
export interface EngineMetric extends MetricBase {
  readonly from: 'engine'
  readonly type: 'gauge' | 'counter'
  readonly value: (engine: EngineDigest) => number | null | undefined
}

/** State of an engine: one sample per state, 1 or 0. */
export interface StateMetric extends MetricBase {
  readonly from: 'state'
  readonly type: 'gauge'
  readonly label: string
  readonly states: readonly string[]
  readonly value: (engine: EngineDigest) => string
}

/** Decisions, from the digest. */
export interface DecisionMetric extends MetricBase {
  readonly from: 'decision'
  readonly type: 'gauge' | 'counter'
  readonly labels: readonly (keyof DecisionCount)[]
  readonly counts: (count: DecisionCount) => boolean
  /** Value to sum; absent: the number of decisions. */
  readonly sum?: (count: DecisionCount) => number
}

/** One value per pool, from the digest; undefined: no sample. */
interface PoolMetric extends MetricBase {
  readonly from: 'pool'
  readonly type: 'gauge'
  readonly value: (digest: PoolDigest) => number | undefined
}

/** One value per role of the engines of a pool with an objective, from the digest; null: no sample. */
interface CapacityMetric extends MetricBase {
  readonly from: 'capacity'
  readonly type: 'gauge'
  readonly value: (capacity: RoleCapacity) => number | null
}

/** Counts of completed requests, from the rollups. `label`: the part after the count's name. */
export interface CountMetric extends MetricBase {
  readonly from: 'count'
  readonly type: 'counter'
  readonly count: string
  readonly label?: string
}

/** Durations of completed requests, from the rollups. `label: 'stage'`: all stages without a metric of their own. */
export interface DurationMetric extends MetricBase {
  readonly from: 'duration'
  readonly type: 'histogram'
  readonly stage: string | null
}

/** One value of the gateway. */
interface GatewayMetric extends MetricBase {
  readonly from: 'gateway'
  readonly type: 'gauge' | 'counter'
  readonly value: (gateway: GatewayFacts) => number | undefined
}

/** Counts of the gateway, one for each name of a closed list that has any. */
interface GatewayCountsMetric extends MetricBase {
  readonly from: 'gateway_counts'
  readonly type: 'counter'
  readonly label: string
  readonly counts: (gateway: GatewayFacts) => Readonly<Record<string, number>> | undefined
}

/** Counters of each target of a weighted model, or of a mirror. */
interface TargetMetric extends MetricBase {
  readonly from: 'target'
  readonly type: 'counter'
  readonly of: 'targets' | 'mirrors'
  readonly value: (counts: TargetCounts) => number
}

/** One gauge per remote pool, from its region digest. null: no sample. */
export interface RegionMetric extends MetricBase {
  readonly from: 'region'
  readonly type: 'gauge'
  readonly value: (region: RegionStatus) => number | null
}

export interface GatewayFacts {
  readonly draining: boolean
  readonly silentEngines: number
  readonly unreachablePools: number
  /** undefined: no resources are read. */
  readonly malformedResources?: number | undefined
  /** null: counts of one gateway are not exposed. */
  readonly own: OwnCounts | null
}

/** Counters of the gateway itself. */
export interface OwnCounts {
  readonly droppedRecords: number
  readonly droppedSpans: number
  /** Size of the buffered request bodies of the process or isolate. */
  readonly bufferedBytes: number
  /** Requests rejected before routing, by reason. */
  readonly refusals: Readonly<Record<string, number>>
  readonly usage: UsageByKey
  /** Absent: no key or team has a budget. */
  readonly budgets?: BudgetCounts
  /** Absent: no pool counts costs. */
  readonly costs?: CostTotals
  /** Absent: there are no weighted models. */
  readonly targets?: CountsByTarget
  /** Originals and repeated requests. Absent: there is no mirror traffic. */
  readonly mirrors?: CountsByTarget
  /** Results of LMCache lookups, over all pools. */
  readonly lookups: {
    readonly made: number
    readonly late: number
    readonly failed: number
    /** Skipped lookups, by reason. */
    readonly skipped: Readonly<Record<string, number>>
  }
  /** Absent: there are none. */
  readonly replicas?: readonly ReplicaDigest[] | undefined
  /** Absent: none are configured. */
  readonly replicasUp?: boolean | undefined
}

export type Metric =
  | EngineMetric
  | StateMetric
  | DecisionMetric
  | PoolMetric
  | CapacityMetric
  | CountMetric
  | DurationMetric
  | GatewayMetric
  | GatewayCountsMetric
  | TargetMetric
  | RegionMetric

export const flag = (value: boolean): number => (value ? 1 : 0)
