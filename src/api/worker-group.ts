/**
 * Gateways that serve one address together: the I/O threads of a Node process, or the isolates of a Worker. Queries
 * collect what each of them counts.
 */
import type { EndedByStep } from '../core/reports/fleet-history.ts'
import { sumTotals } from '../core/edge/totals.ts'
import { sumUsage, type UsageByKey } from '../core/limits/key-usage.ts'
import type { PoolLookupCounts } from '../origin/lmcache/lookups.ts'
import { sumCounts } from '../origin/lmcache/client.ts'
import type { FleetProbe } from '../origin/probe.ts'
import type { GatewayContext } from './context.ts'
import type { RequestScope, StoredResponses } from '../ports.ts'
import type { RecentRequest } from './request-log.ts'

/** `counts`: answered with Counted. `request`: with a RecentRequest, or null. */
export type WorkerQuery = { readonly about: 'counts' } | { readonly about: 'request'; readonly id: string }

/** Interface of a gateway to the other threads. */
export interface WorkerGroup {
  /** Queries all others. Leaves out those that do not answer in time; never rejects. */
  ask(question: WorkerQuery): Promise<readonly unknown[]>
  /** Absent: each gateway has its own. */
  readonly storedResponses?: StoredResponses
  /** One thread probes the engines for all. Absent: each gateway probes. */
  readonly prober?: Pick<FleetProbe, 'round' | 'suspect'>
  /** Start of the first gateway, ms since the epoch. May fall when an earlier one becomes known. */
  readonly startedAt: number
  /** Records a request that has ended. Absent: the others ask for it. */
  ended?(request: RecentRequest, scope: RequestScope): void
  /** Server-sent events of the fleet's views for all gateways. null: unavailable. Absent: each gateway has its own. */
  live?(lastEventId: string | null): Promise<ReadableStream<Uint8Array> | null>
  /** Fields for views of the fleet. Absent: none. */
  readonly view?: object
}

/** Counters of one gateway. */
export interface GatewayCounts {
  readonly droppedRecords: number
  readonly droppedSpans: number
  readonly refusals: Readonly<Record<string, number>>
  readonly usage: UsageByKey
  /** By pool, in the order of the configuration. null: the pool has no lookups. */
  readonly lookups: readonly (PoolLookupCounts | null)[]
  /** Absent from older isolates. */
  readonly ended?: EndedByStep
}

type Asked = Pick<GatewayContext, 'telemetry' | 'lookups' | 'catalog' | 'recent' | 'shared' | 'usage'>

/** Answers a query of another thread. */
export async function answerWorkerQuery(
  context: Asked,
  question: WorkerQuery,
): Promise<GatewayCounts | RecentRequest | null> {
  if (question.about === 'request') return context.recent.find(question.id)
  // The counts include the rollups of ended requests.
  await context.telemetry.flush()
  const { droppedRecords, droppedSpans, refusals } = context.telemetry
  return {
    droppedRecords,
    droppedSpans,
    refusals,
    usage: context.usage.list(),
    lookups: context.catalog.routes.map((route) => context.lookups.counts(route)),
    ended: context.telemetry.endedHistory.byStep(),
  }
}

/** Sums the counts of all threads. */
export async function aggregateCounts(context: Asked): Promise<GatewayCounts> {
  const own = answerWorkerQuery(context, { about: 'counts' }) as Promise<GatewayCounts>
  const others = (context.shared?.ask({ about: 'counts' }) ?? []) as
    | readonly GatewayCounts[]
    | Promise<readonly GatewayCounts[]>
  return (await others).reduce(sum, await own)
}

/** Flushes ended requests on all threads, so that the next read includes them. */
export async function flushAllWorkers(context: Asked): Promise<void> {
  await aggregateCounts(context)
}

/** Finds a recent request on any thread. */
export async function findRequestOnAnyWorker(context: Asked, id: string): Promise<RecentRequest | null> {
  const own = context.recent.find(id)
  if (own !== null || context.shared === null) return own
  const others = (await context.shared.ask({ about: 'request', id })) as readonly (RecentRequest | null)[]
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
  lookups: a.lookups.map((counts, at) => sumLookups(counts, b.lookups[at] ?? null)),
  ended: sumTotals(a.ended ?? {}, b.ended ?? {}) as unknown as EndedByStep,
})

/** Adds two sets of counters. Threads without lookups have none. */
function sumLookups(a: PoolLookupCounts | null, b: PoolLookupCounts | null): PoolLookupCounts | null {
  if (a === null || b === null) return a ?? b
  const { skipped: skippedByA, ...ended } = a
  const { skipped: skippedByB, ...endedByB } = b
  return { ...sumCounts([ended, endedByB]), skipped: sumCounts([skippedByA, skippedByB]) }
}
