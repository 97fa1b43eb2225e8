/**
 * Several gateways may serve one address: the I/O threads of a Node process. What only one of them saw is asked of all;
 * what must be known to all lives where all can ask for it.
 */
import type { PoolLookupCounts } from '../origin/lmcache/lookups.ts'
import { sumCounts } from '../origin/lmcache/skips.ts'
import type { FleetProbe } from '../origin/probe.ts'
import type { GatewayContext } from './context.ts'
import type { StoredResponses } from '../ports.ts'
import type { RecentRequest } from './request-log.ts'

/** `counts`: answered with Counted. `request`: with a RecentRequest, or null. */
export type WorkerQuery = { readonly about: 'counts' } | { readonly about: 'request'; readonly id: string }

/** What a gateway has in common with its fellows. */
export interface WorkerGroup {
  /** Asks every other one. Those that do not answer in time are left out; never rejects. */
  ask(question: WorkerQuery): Promise<readonly unknown[]>
  readonly held: StoredResponses
  /** One of them probes for all. */
  readonly prober: Pick<FleetProbe, 'round' | 'suspect'>
  /** When the first of them was started, ms since the epoch. */
  readonly startedAt: number
}

/** What a gateway counts itself. */
export interface GatewayCounts {
  readonly droppedRecords: number
  readonly droppedSpans: number
  readonly refusals: Readonly<Record<string, number>>
  /** By pool, in the order of the configuration; null: none are made. */
  readonly lookups: readonly (PoolLookupCounts | null)[]
}

type Asked = Pick<GatewayContext, 'telemetry' | 'lookups' | 'catalog' | 'recent' | 'shared'>

/** This gateway's answer to a fellow's question. */
export async function answerWorkerQuery(
  context: Asked,
  question: WorkerQuery,
): Promise<GatewayCounts | RecentRequest | null> {
  if (question.about === 'request') return context.recent.find(question.id)
  // Who counts wants what has ended to be in the rollups too.
  await context.telemetry.flush()
  const { droppedRecords, droppedSpans, refusals } = context.telemetry
  return {
    droppedRecords,
    droppedSpans,
    refusals,
    lookups: context.catalog.routes.map((route) => context.lookups.counts(route)),
  }
}

/** The counts of this gateway and all its fellows. */
export async function aggregateCounts(context: Asked): Promise<GatewayCounts> {
  const own = answerWorkerQuery(context, { about: 'counts' }) as Promise<GatewayCounts>
  const others = (context.shared?.ask({ about: 'counts' }) ?? []) as
    | readonly GatewayCounts[]
    | Promise<readonly GatewayCounts[]>
  return (await others).reduce(sum, await own)
}

/** So that what is read next holds what has ended, on whichever of them. */
export async function flushAllWorkers(context: Asked): Promise<void> {
  await aggregateCounts(context)
}

/** A recent request, whoever of them served it. */
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
  lookups: a.lookups.map((counts, at) => sumLookups(counts, b.lookups[at] ?? null)),
})

/** Each counter of the one and of the other; a worker that has looked nothing up yet has none. */
function sumLookups(a: PoolLookupCounts | null, b: PoolLookupCounts | null): PoolLookupCounts | null {
  if (a === null || b === null) return a ?? b
  const { skipped: skippedByA, ...ended } = a
  const { skipped: skippedByB, ...endedByB } = b
  return { ...sumCounts([ended, endedByB]), skipped: sumCounts([skippedByA, skippedByB]) }
}
