/**
 * Several gateways may serve one address: the I/O threads of a Node process. What only one of them saw is asked of all;
 * what must be known to all lives where all can ask for it.
 */
import type { LookupCounts } from '../origin/lmcache/pool-lookup.ts'
import type { FleetProbe } from '../origin/probe.ts'
import type { Door } from './door.ts'
import type { Holdings } from '../ports.ts'
import type { RecentRequest } from './recent.ts'

/** `counts`: answered with Counted. `request`: with a RecentRequest, or null. */
export type FellowQuestion = { readonly about: 'counts' } | { readonly about: 'request'; readonly id: string }

/** What a gateway has in common with its fellows. */
export interface Shared {
  /** Asks every other one. Those that do not answer in time are left out; never rejects. */
  ask(question: FellowQuestion): Promise<readonly unknown[]>
  readonly held: Holdings
  /** One of them probes for all. */
  readonly prober: Pick<FleetProbe, 'round' | 'suspect'>
  /** When the first of them was started, ms since the epoch. */
  readonly startedAt: number
}

/** What a gateway counts itself. */
export interface Counted {
  readonly droppedRecords: number
  readonly droppedSpans: number
  readonly refusals: Readonly<Record<string, number>>
  /** By pool, in the order of the configuration; null: none are made. */
  readonly lookups: readonly (LookupCounts | null)[]
}

type Asked = Pick<Door, 'telemetry' | 'lookups' | 'catalog' | 'recent' | 'shared'>

/** This gateway's answer to a fellow's question. */
export async function answerFellow(door: Asked, question: FellowQuestion): Promise<Counted | RecentRequest | null> {
  if (question.about === 'request') return door.recent.find(question.id)
  // Who counts wants what has ended to be in the rollups too.
  await door.telemetry.flush()
  const { droppedRecords, droppedSpans, refusals } = door.telemetry
  return { droppedRecords, droppedSpans, refusals, lookups: door.catalog.routes.map((route) => door.lookups.counts(route)) }
}

/** The counts of this gateway and all its fellows. */
export async function countedByAll(door: Asked): Promise<Counted> {
  const own = answerFellow(door, { about: 'counts' }) as Promise<Counted>
  const others = (door.shared?.ask({ about: 'counts' }) ?? []) as readonly Counted[] | Promise<readonly Counted[]>
  return (await others).reduce(sum, await own)
}

/** So that what is read next holds what has ended, on whichever of them. */
export async function flushAll(door: Asked): Promise<void> {
  await countedByAll(door)
}

/** A recent request, whoever of them served it. */
export async function recentOfAll(door: Asked, id: string): Promise<RecentRequest | null> {
  const own = door.recent.find(id)
  if (own !== null || door.shared === null) return own
  const others = (await door.shared.ask({ about: 'request', id })) as readonly (RecentRequest | null)[]
  return others.find((found) => found !== null) ?? null
}

const sum = (a: Counted, b: Counted): Counted => ({
  droppedRecords: a.droppedRecords + b.droppedRecords,
  droppedSpans: a.droppedSpans + b.droppedSpans,
  refusals: Object.fromEntries(Object.keys({ ...a.refusals, ...b.refusals }).map((reason) => [reason, (a.refusals[reason] ?? 0) + (b.refusals[reason] ?? 0)])),
  lookups: a.lookups.map((counts, at) => sumLookups(counts, b.lookups[at] ?? null)),
})

function sumLookups(a: LookupCounts | null, b: LookupCounts | null): LookupCounts | null {
  if (a === null || b === null) return a ?? b
  return Object.fromEntries(Object.entries(a).map(([how, count]) => [how, count + b[how as keyof LookupCounts]])) as unknown as LookupCounts
}
