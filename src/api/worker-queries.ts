/** Queries that collect what each gateway of a worker group counts. */
import { sumTotals } from '../core/edge/totals.ts'
import { sumUsage } from '../core/limits/key-usage.ts'
import type { EndedByStep } from '../core/reports/ended-history.ts'
import { sumCounts } from './sum-counts.ts'
import type { PoolLookupCounts } from '../origin/lmcache/cache-lookups.ts'
import type { GatewayContext } from './context.ts'
import type { RecentRequest } from '../core/reports/recent-request.ts'
import type { GatewayCounts, GroupQuery } from '../worker-group.ts'

type WorkerQueryContext = Pick<GatewayContext, 'telemetry' | 'lookups' | 'models' | 'recent' | 'shared' | 'usage'>

/** Answers a query of another thread. */
export async function answerWorkerQuery(
  context: WorkerQueryContext,
  question: GroupQuery,
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
    lookups: context.models.routes.map((route) => context.lookups.counts(route)),
    ended: context.telemetry.endedHistory.byStep(),
  }
}

/** Sums the counts of all threads. */
export async function aggregateCounts(context: WorkerQueryContext): Promise<GatewayCounts> {
  const own = answerWorkerQuery(context, { about: 'counts' }) as Promise<GatewayCounts>
  const others = (context.shared?.ask({ about: 'counts' }) ?? []) as
    | readonly GatewayCounts[]
    | Promise<readonly GatewayCounts[]>
  return (await others).reduce(sum, await own)
}

/** Flushes ended requests on all threads, so that the next read includes them. */
export async function flushAllWorkers(context: WorkerQueryContext): Promise<void> {
  await aggregateCounts(context)
}

/** Finds a recent request on any thread. */
export async function findRequestOnAnyWorker(context: WorkerQueryContext, id: string): Promise<RecentRequest | null> {
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
