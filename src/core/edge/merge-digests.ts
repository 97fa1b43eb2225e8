import type { DecisionCount, EngineDigest, PoolDigest } from '../contract/pool-digest.ts'

/** Digest of one isolate. */
export interface IsolateDigest {
  readonly digest: PoolDigest
  /** false: the isolate is gone, so its requests in flight do not count. */
  readonly isLive: boolean
}

/** Last TTFTs of an engine that a merged digest keeps. */
const TTFTS_KEPT = 40

/** Merges the digests of one pool, at least one. Gauges are summed over live isolates, totals over all. */
export function mergeDigests(all: readonly IsolateDigest[]): PoolDigest {
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

interface IsolateEngine {
  readonly engine: EngineDigest
  readonly isLive: boolean
}

function mergeEngine(all: readonly IsolateEngine[]): EngineDigest {
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
function mean(all: readonly IsolateEngine[], of: (engine: EngineDigest) => number | null): number | null {
  const known = all.filter(({ engine }) => of(engine) !== null)
  if (known.length === 0) return null
  const weight = ({ engine }: IsolateEngine) => Math.max(1, engine.requestsTotal)
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
