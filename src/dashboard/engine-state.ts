import type { Engine, Pool } from './wire.ts'
import { count, ms, plural } from './format.ts'

/** State of the gateway behind which a pool's engines are, as parts of a line. */
export function regionText({ gateway }: Pool): readonly string[] {
  if (gateway === null || gateway === undefined) return ['no digest yet']
  const {
    reachable,
    engines,
    requests,
    queued,
    expected_ttft_ms: ttft,
    rtt_ms: rtt,
    age_ms: age,
    blocking_match: alike,
  } = gateway
  return [
    ...(reachable ? [] : ['does not answer']),
    `${plural(engines, 'engine')} there`,
    `${count(requests)} running`,
    `${count(queued)} waiting`,
    ...(ttft === null ? [] : [`first token in ${ms(ttft)}`]),
    `${ms(rtt)} away`,
    `updated ${age < 1000 ? 'just now' : `${Math.round(age / 1000)} s ago`}`,
    ...(alike ? [] : ['prompts divided into other blocks']),
  ]
}

export type EngineState = 'up' | 'draining' | 'asleep' | 'unhealthy' | 'circuit' | 'full' | 'unknown'

export interface Line {
  readonly pool: Pool
  readonly engine: Engine
  readonly state: EngineState
  /** State in words. */
  readonly text: string
}

export const linesOf = (pools: readonly Pool[]): Line[] =>
  pools.flatMap((pool) =>
    pool.engines.map((engine) => ({ pool, engine, ...(gatewayProblem(pool) ?? stateOf(engine)) })),
  )

export const isGateway = ({ gateway }: Pick<Pool, 'gateway'>): boolean => gateway !== undefined

/** Pools whose card would say nothing that the table does not: one pool of this gateway. */
export const needsCards = (pools: readonly Pool[]): boolean =>
  pools.length !== 1 || !pools[0]!.reachable || isGateway(pools[0]!)

/** TTFT that all pools with an objective share, ms. null: there is none, or it depends on the pool or the prompt. */
export function objectiveOf(pools: readonly Pick<Pool, 'slo'>[]): number | null {
  const own = pools.flatMap(({ slo }) => (slo?.ttft_ms == null ? [] : [slo]))
  const limits = new Set(own.map(({ ttft_ms: limit, ttft_ms_per_1k_tokens: per1k }) => (per1k ? null : limit)))
  return limits.size === 1 ? ([...limits][0] ?? null) : null
}

/** Role for display: another gateway has engines of all roles. */
export const roleOf = ({ pool, engine }: Pick<Line, 'pool' | 'engine'>): string =>
  isGateway(pool) ? 'gateway' : engine.role

type Stated = Pick<Line, 'state' | 'text'>

/** The problem that another gateway reports about itself; null: none. */
function gatewayProblem({ gateway }: Pool): Stated | null {
  if (!gateway) return null
  if (!gateway.reachable) return { state: 'unhealthy', text: 'unhealthy' }
  return gateway.engines === 0 ? { state: 'full', text: 'no engine' } : null
}

/** The first reason why the engine is not chosen, the most severe first. */
function stateOf(engine: Engine): Stated {
  if (engine.available === null) return { state: 'unknown', text: 'unknown' }
  if (engine.healthy === false) return { state: 'unhealthy', text: 'unhealthy' }
  if (engine.circuit !== undefined && engine.circuit !== 'closed')
    return { state: 'circuit', text: `circuit ${engine.circuit}` }
  if (engine.draining) return { state: 'draining', text: 'draining' }
  if (engine.asleep) return { state: 'asleep', text: 'asleep' }
  return engine.available ? { state: 'up', text: 'up' } : { state: 'full', text: 'full' }
}

export const columns = {
  engine: ({ engine }: Line) => engine.id,
  cluster: ({ pool }: Line) => `${pool.cluster} ${pool.model}`,
  role: (line: Line) => roleOf(line),
  state: ({ text }: Line) => text,
  running: ({ engine }: Line) => engine.requests,
  blocks: ({ engine }: Line) => engine.active_blocks,
  queue: ({ engine }: Line) => engine.queued_prefill_s,
  waiting: ({ engine }: Line) => engine.stats?.waiting,
  kv: ({ engine }: Line) => engine.stats?.kv_usage,
  hits: ({ engine }: Line) => engine.hit_rate,
  ttft: ({ engine }: Line) => engine.ttft_ms,
  error: ({ engine }: Line) => engine.learned?.ttft_error,
  requests: ({ engine }: Line) => engine.requests_total,
  failures: ({ engine }: Line) => engine.failures_total,
} as const satisfies Record<string, (line: Line) => string | number | null | undefined>

export type Column = keyof typeof columns

export interface Selection {
  readonly text: string
  readonly state: EngineState | 'all' | 'trouble'
  readonly column: Column
  readonly descending: boolean
}

/** Filters and sorts the lines. Unknown values come last in both directions. */
export function chosen<Of extends Line>(lines: readonly Of[], { text, state, column, descending }: Selection): Of[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  const fits = (line: Line) => {
    const own = `${line.engine.id} ${line.pool.cluster} ${line.pool.model} ${roleOf(line)} ${line.text}`.toLowerCase()
    return (
      words.every((word) => own.includes(word)) &&
      (state === 'all' || (state === 'trouble' ? line.state !== 'up' : line.state === state))
    )
  }
  const value = columns[column]
  return lines.filter(fits).toSorted((a, b) => compare(value(a), value(b), descending))
}

type Value = string | number | null | undefined

function compare(a: Value, b: Value, descending: boolean): number {
  const isMissing = Number(a === null || a === undefined) - Number(b === null || b === undefined)
  if (isMissing !== 0 || a === null || a === undefined || b === null || b === undefined) return isMissing
  const order =
    typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true })
  return descending ? -order : order
}
