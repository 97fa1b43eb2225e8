/** Figures of each pool and engine, computed from a view and the rates of its totals. Nothing is drawn here. */
import { type EngineLine, type EngineState, linesOf } from '../../dashboard/engine-state.ts'
import { quantile } from '../../dashboard/format.ts'
import type { Pool, View } from '../../dashboard/wire.ts'
import type { Growth, Pace } from './pace.ts'

/** A view with derived figures of its pools and engines. */
export interface ViewFigures {
  readonly view: View
  readonly fleet: PoolFigures
  readonly pools: readonly PoolFigures[]
  /** All engines. */
  readonly engines: readonly EngineFigures[]
}

export function figuresOf(view: View, pace: Pace): ViewFigures {
  const engines = engineFigures(view, pace)
  const pools = poolFigures(view, engines)
  return { view, fleet: fleetFigures(pools, engines), pools, engines }
}

export interface EngineFigures extends EngineLine {
  readonly growth: Growth | null
  /** Notes for the operator, the most severe first. */
  readonly notes: readonly string[]
}

/** Figures of one pool, or of all. null: unknown. */
export interface PoolFigures {
  /** null: all pools together. */
  readonly pool: Pool | null
  readonly engines: number
  readonly up: number
  /** Requests booked and not finished. */
  readonly running: number | null
  readonly requestsPerS: number | null
  readonly queuedTokens: number | null
  /** Longest prefill queue of an engine, in seconds. */
  readonly longestS: number | null
  /** Mean over the engines that report it. */
  readonly hitRate: number | null
  /** Over the last first tokens of each engine, as many as the gateway keeps. */
  readonly ttftP50Ms: number | null
  readonly ttftP99Ms: number | null
  readonly ttfts: number
}

/** Order of the states, the most severe first. Those from `draining` on need no action. */
const SEVERITY_RANKS: Readonly<Record<EngineState, number>> = {
  unknown: 0,
  unhealthy: 1,
  wedged: 2,
  circuit: 3,
  slow: 4,
  full: 5,
  draining: 6,
  asleep: 7,
  up: 8,
}

export const severityRank = (state: EngineState): number => SEVERITY_RANKS[state]

export const isSevere = (state: EngineState): boolean => severityRank(state) < severityRank('full')

function engineFigures({ pools }: View, pace: Pace): EngineFigures[] {
  return linesOf(pools).map((line) => {
    const growth = pace.of(line.pool.cluster, line.pool.model, line.engine.id)
    return { ...line, growth, notes: notesOf(line, growth) }
  })
}

/** Age in ms above which statistics are older than the present state. Engines are probed every 10 s by default. */
const OLD_STATS_MS = 60_000

function notesOf({ engine, state }: EngineLine, growth: Growth | null): string[] {
  const { stats, learned, kv_feed: feed } = engine
  const silent = learned?.silent_miss ?? null
  const notes = [
    growth !== null && growth.failures > 0 ? `${growth.failures} failed in ${Math.round(growth.overS)} s` : null,
    silent === null ? null : `hits predicted but not reported: ${silent.join('; ')}`,
    feed?.state === 'silent' ? 'KV events stopped' : null,
    engine.weight === 0 ? 'weight 0: no new requests' : null,
    // An unhealthy engine reports no statistics.
    state !== 'unhealthy' && stats !== null && stats !== undefined && stats.age_ms > OLD_STATS_MS
      ? `its metrics are ${Math.round(stats.age_ms / 1000)} s old`
      : null,
    (learned?.restarts ?? 0) > 0 ? `cache lost ${learned!.restarts}x` : null,
  ]
  return notes.filter((note) => note !== null)
}

/** Orders pools by severity, then as configured. */
function poolFigures(view: View, engines: readonly EngineFigures[]): PoolFigures[] {
  const figures = view.pools.map((pool) => ({
    ...summed(engines.filter((line) => line.pool === pool)),
    pool,
    running: pool.bookings,
  }))
  const downOf = ({ engines: all, up }: PoolFigures) => all - up
  return figures.toSorted((a, b) => downOf(b) - downOf(a))
}

/** Sums all pools. */
function fleetFigures(pools: readonly PoolFigures[], engines: readonly EngineFigures[]): PoolFigures {
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
    requestsPerS: sumOf(lines.filter(answers), ({ growth }) => growth?.requestsPerS),
    queuedTokens: sumOf(engines, (engine) => engine.queued_prefill_tokens),
    longestS: queues.length === 0 ? null : queues.reduce((max, queue) => Math.max(max, queue)),
    hitRate: rates.length === 0 ? null : rates.reduce((sum, rate) => sum + rate) / rates.length,
    ttftP50Ms: quantile(ttfts, 0.5),
    ttftP99Ms: quantile(ttfts, 0.99),
    ttfts: ttfts.length,
  }
}

/** A split request has bookings on several engines. It is counted once, on its decode engine. */
const answers = ({ engine }: EngineLine): boolean => engine.role === 'any' || engine.role === 'decode'

/** Sums known values; null if none is known. */
function sumOf<Item>(items: readonly Item[], valueOf: (item: Item) => number | null | undefined): number | null {
  const values = items.flatMap((item) => valueOf(item) ?? [])
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value)
}
