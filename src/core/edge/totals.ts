/** Sums of counters and digests over isolates. */
import type { ClusterDigest, EngineDigest } from '../contract/contract.ts'
import type { DecisionCount } from '../pool/decisions.ts'
import { historyFrom, mergeHistories, type PoolHistory, STEP_MS, STEPS } from '../reports/history.ts'
import type { Totals } from './sync.ts'

/** Adds two trees of numbers. A part that only one of them has is copied. */
export function sumTotals(a: Totals, b: Totals): Totals {
  if (a === null || b === null) return a ?? b
  if (typeof a === 'number' || typeof b === 'number')
    return (typeof a === 'number' ? a : 0) + (typeof b === 'number' ? b : 0)
  if (isList(a) && isList(b))
    return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => sumTotals(a[at] ?? null, b[at] ?? null))
  if (isList(a) || isList(b)) return a
  const keys = new Set([...Object.keys(a), ...Object.keys(b)])
  return Object.fromEntries(Array.from(keys, (key) => [key, sumTotals(a[key] ?? null, b[key] ?? null)]))
}

export const isList = (value: Totals): value is readonly Totals[] => Array.isArray(value)

/** Digest of one isolate. */
export interface OwnDigest {
  readonly digest: ClusterDigest
  /** false: the isolate is gone, so its requests in flight do not count. */
  readonly isLive: boolean
}

/** Last TTFTs of an engine that a merged digest keeps. */
const TTFTS_KEPT = 40

/** Merges the digests of one pool, at least one. Gauges are summed over live isolates, totals over all. */
export function mergeDigests(all: readonly OwnDigest[]): ClusterDigest {
  const newest = all.reduce((a, b) => (b.digest.configVersion >= a.digest.configVersion ? b : a)).digest
  return {
    ...newest,
    bookings: sum(all, ({ digest, isLive }) => (isLive ? digest.bookings : 0)),
    engines: newest.engines.map(({ id }) =>
      mergeEngine(
        all.flatMap(({ digest, isLive }) => {
          const engine = digest.engines.find((one) => one.id === id)
          return engine === undefined ? [] : [{ engine, isLive }]
        }),
      ),
    ),
    decisions: mergeDecisions(all.flatMap(({ digest }) => digest.decisions ?? [])),
  }
}

interface OwnEngine {
  readonly engine: EngineDigest
  readonly isLive: boolean
}

function mergeEngine(all: readonly OwnEngine[]): EngineDigest {
  const live = all.filter(({ isLive }) => isLive)
  const judged = live.length === 0 ? all : live
  const { engine: last } = judged.at(-1)!
  const gauge = (of: (engine: EngineDigest) => number) => sum(live, ({ engine }) => of(engine))
  const total = (of: (engine: EngineDigest) => number) => sum(all, ({ engine }) => of(engine))
  return {
    ...last,
    available: judged.some(({ engine }) => engine.available),
    healthy: judged.some(({ engine }) => engine.healthy),
    requests: gauge(({ requests }) => requests),
    activeBlocks: gauge(({ activeBlocks }) => activeBlocks),
    queuedPrefillS: gauge(({ queuedPrefillS }) => queuedPrefillS),
    ttftMs: mean(all, ({ ttftMs }) => ttftMs),
    hitRate: mean(all, ({ hitRate = null }) => hitRate),
    requestsTotal: total(({ requestsTotal }) => requestsTotal),
    failuresTotal: total(({ failuresTotal }) => failuresTotal),
    ejectionsWithheld: total(({ ejectionsWithheld = 0 }) => ejectionsWithheld),
    recentTtftMs: all.flatMap(({ engine }) => engine.recentTtftMs ?? []).slice(-TTFTS_KEPT),
  }
}

/** Mean weighted by requests. null: no isolate has a value. */
function mean(all: readonly OwnEngine[], of: (engine: EngineDigest) => number | null): number | null {
  const known = all.filter(({ engine }) => of(engine) !== null)
  if (known.length === 0) return null
  const weight = ({ engine }: OwnEngine) => Math.max(1, engine.requestsTotal)
  return sum(known, (one) => of(one.engine)! * weight(one)) / sum(known, weight)
}

/** Adds the counts of equal kinds of decisions. */
export function mergeDecisions(all: readonly DecisionCount[]): DecisionCount[] {
  const merged = new Map<string, DecisionCount>()
  for (const one of all) {
    const { policy, fallback, retry, placement, refused, shadow = '', panic = false } = one
    const key = JSON.stringify([policy, fallback, retry, placement, refused, shadow, panic])
    const known = merged.get(key)
    merged.set(
      key,
      known === undefined
        ? one
        : {
            ...known,
            count: known.count + one.count,
            shadowGainS: (known.shadowGainS ?? 0) + (one.shadowGainS ?? 0),
          },
    )
  }
  return [...merged.values()]
}

function sum<Item>(all: readonly Item[], of: (item: Item) => number): number {
  return all.reduce((total, item) => total + of(item), 0)
}

const noHistory: PoolHistory = { steps: [], slices: [] }

/** History of one pool over isolates. Each isolate repeats its newest steps, so older ones are added once. */
export class SharedHistory {
  #settled = noHistory
  readonly #last = new Map<string, PoolHistory>()

  /** Adopts the newest steps of an isolate. */
  adopt(isolate: string, history: PoolHistory = noHistory, now: number): void {
    const before = this.#last.get(isolate) ?? noHistory
    const [steps, slices] = [startsOf(history.steps), startsOf(history.slices)]
    const dropped = {
      steps: before.steps.filter(({ at }) => !steps.has(at)),
      slices: before.slices.filter(({ at }) => !slices.has(at)),
    }
    this.#last.set(isolate, history)
    this.#settled = historyFrom(mergeHistories([this.#settled, dropped]), now - STEP_MS * STEPS)
  }

  forget(isolate: string, now: number): void {
    this.adopt(isolate, noHistory, now)
    this.#last.delete(isolate)
  }

  data(since: number): PoolHistory {
    return historyFrom(mergeHistories([this.#settled, ...this.#last.values()]), since)
  }
}

const startsOf = (parts: readonly { readonly at: number }[]): ReadonlySet<number> => new Set(parts.map(({ at }) => at))
