/** What the screen says of each pool and each engine, from a view and the paces of its totals. Nothing is drawn here. */
import { linesOf, type EngineState, type Line } from '../../dashboard/engine-state.ts'
import { quantile } from '../../dashboard/format.ts'
import type { Pool, View } from '../../dashboard/wire.ts'
import type { Grown, Pace } from './watch.ts'

export interface EngineFigures extends Line {
  readonly grown: Grown | null
  /** What an operator would want to be told, the gravest first. */
  readonly notes: readonly string[]
}

/** Of one pool, or of all. null: nobody knows. */
export interface PoolFigures {
  /** null: of all pools. */
  readonly pool: Pool | null
  readonly engines: number
  readonly up: number
  /** Requests booked and not ended. */
  readonly running: number | null
  readonly requestsPerS: number | null
  readonly queuedTokens: number | null
  /** The longest queue of an engine, in seconds of prefill. */
  readonly longestS: number | null
  /** Mean of the engines that say. */
  readonly hitRate: number | null
  /** Over the last first tokens of each engine, as many as the gateway keeps. */
  readonly ttftP50Ms: number | null
  readonly ttftP99Ms: number | null
  readonly ttfts: number
}

/** Nobody wanted what comes first; what comes before `up`, somebody may have. */
const GRAVITY: readonly EngineState[] = ['unknown', 'unhealthy', 'circuit', 'full', 'draining', 'asleep', 'up']
export const gravityOf = (state: EngineState): number => GRAVITY.indexOf(state)
export const isGrave = (state: EngineState): boolean => gravityOf(state) < gravityOf('full')

export function engineFigures({ pools }: View, pace: Pace): EngineFigures[] {
  return linesOf(pools).map((line) => {
    const grown = pace.of(line.pool.cluster, line.pool.model, line.engine.id)
    return { ...line, grown, notes: notesOf(line, grown) }
  })
}

/** A reading this old is of before the trouble. Probes come every ten seconds where nobody says otherwise. */
const OLD_STATS_MS = 60_000

function notesOf({ engine, state }: Line, grown: Grown | null): string[] {
  const { stats, learned, kv_feed: feed } = engine
  const silent = learned?.silent_miss ?? null
  const notes = [
    grown !== null && grown.failures > 0 ? `${grown.failures} failed in ${Math.round(grown.overS)} s` : null,
    silent === null ? null : `hits predicted, none seen: ${silent.join('; ')}`,
    feed?.state === 'silent' ? 'KV events stopped' : null,
    engine.weight === 0 ? 'weight 0: no new requests' : null,
    // One that is unhealthy tells nothing anyway.
    state !== 'unhealthy' && stats !== null && stats !== undefined && stats.age_ms > OLD_STATS_MS
      ? `its metrics are ${Math.round(stats.age_ms / 1000)} s old`
      : null,
    (learned?.restarts ?? 0) > 0 ? `cache lost ${learned!.restarts}x` : null,
  ]
  return notes.filter((note) => note !== null)
}

/** Pools with the most trouble first, else as configured. */
export function poolFigures(view: View, engines: readonly EngineFigures[]): PoolFigures[] {
  const figures = view.pools.map((pool) => ({
    ...summed(engines.filter((line) => line.pool === pool)),
    pool,
    running: pool.bookings,
  }))
  const downOf = ({ engines: all, up }: PoolFigures) => all - up
  return figures.toSorted((a, b) => downOf(b) - downOf(a))
}

/** All pools as one. */
export function fleetFigures(pools: readonly PoolFigures[], engines: readonly EngineFigures[]): PoolFigures {
  return { ...summed(engines), pool: null, running: sumOf(pools, ({ running }) => running) }
}

function summed(lines: readonly EngineFigures[]): Omit<PoolFigures, 'pool' | 'running'> {
  const engines = lines.map(({ engine }) => engine)
  const rates = engines.flatMap(({ hit_rate: rate }) => rate ?? [])
  const queues = engines.flatMap(({ queued_prefill_s: queue }) => queue ?? [])
  const ttfts = engines.flatMap(({ recent_ttft_ms: recent }) => recent ?? [])
  return {
    engines: lines.length,
    up: lines.filter(({ state }) => state === 'up').length,
    requestsPerS: sumOf(lines.filter(answers), ({ grown }) => grown?.requestsPerS),
    queuedTokens: sumOf(engines, (engine) => engine.queued_prefill_tokens),
    longestS: queues.length === 0 ? null : queues.reduce((most, queue) => Math.max(most, queue)),
    hitRate: rates.length === 0 ? null : rates.reduce((sum, rate) => sum + rate) / rates.length,
    ttftP50Ms: quantile(ttfts, 0.5),
    ttftP99Ms: quantile(ttfts, 0.99),
    ttfts: ttfts.length,
  }
}

/** A split request is booked on several engines and counts once, where it is decoded. */
const answers = ({ engine }: Line): boolean => engine.role === 'any' || engine.role === 'decode'

/** Of what is known; null: nothing is. */
function sumOf<Item>(items: readonly Item[], valueOf: (item: Item) => number | null | undefined): number | null {
  const values = items.flatMap((item) => valueOf(item) ?? [])
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value)
}
