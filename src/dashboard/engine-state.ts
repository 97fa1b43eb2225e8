import type { Engine, Pool } from './wire.ts'

export type EngineState =
  | 'up'
  | 'draining'
  | 'asleep'
  | 'unhealthy'
  | 'wedged'
  | 'slow'
  | 'circuit'
  | 'full'
  | 'unknown'

export interface EngineLine {
  readonly pool: Pool
  readonly engine: Engine
  readonly state: EngineState
  /** State in words. */
  readonly text: string
}

export const linesOf = (pools: readonly Pool[]): EngineLine[] =>
  pools.flatMap((pool) =>
    pool.engines.map((engine) => ({ pool, engine, ...(gatewayProblem(pool) ?? stateOf(engine)) })),
  )

export const isGateway = ({ gateway }: Pick<Pool, 'gateway'>): boolean => gateway !== undefined

/** Whether all engines are behind other gateways, so that this one knows neither their load nor their prediction. */
export const isEdge = (pools: readonly Pick<Pool, 'gateway'>[]): boolean => pools.length > 0 && pools.every(isGateway)

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
export const roleOf = ({ pool, engine }: Pick<EngineLine, 'pool' | 'engine'>): string =>
  isGateway(pool) ? 'gateway' : engine.role

type StateText = Pick<EngineLine, 'state' | 'text'>

/** The problem that another gateway reports about itself; null: none. */
function gatewayProblem({ gateway }: Pool): StateText | null {
  if (!gateway) return null
  if (!gateway.reachable) return { state: 'unhealthy', text: 'unhealthy' }
  return gateway.engines === 0 ? { state: 'full', text: 'no engine' } : null
}

/** State of a circuit that is not closed. */
export const circuitText = ({ circuit }: Pick<Engine, 'circuit'>): string =>
  `circuit ${circuit === 'half_open' ? 'half-open' : 'open'}`

/** The first reason why the engine is not chosen, the most severe first. */
export function stateOf(engine: Engine): StateText {
  if (engine.available === null) return { state: 'unknown', text: 'unknown' }
  if (engine.healthy === false) return { state: 'unhealthy', text: 'unhealthy' }
  if (engine.condition === 'wedged') return { state: 'wedged', text: 'wedged' }
  if (engine.circuit !== undefined && engine.circuit !== 'closed')
    return { state: 'circuit', text: circuitText(engine) }
  if (engine.condition === 'slow' && !engine.available) return { state: 'slow', text: 'too slow' }
  if (engine.draining) return { state: 'draining', text: 'draining' }
  if (engine.asleep) return { state: 'asleep', text: 'asleep' }
  return engine.available ? { state: 'up', text: 'up' } : { state: 'full', text: 'full' }
}
