import type { ArrivalRates, Arrivals } from '../capacity/arrivals.ts'
import type { EnginePace } from '../capacity/engine-rate.ts'
import { roleCapacity, type RoleLoad, servedRate } from '../capacity/role-capacity.ts'
import type { PoolCapacity } from '../contract/pool-capacity.ts'
import { isOpaque, type PoolConfig, type Role } from '../contract/pool-config.ts'
import { decodeCostModelAt } from '../latency/decode-cost-model.ts'
import type { BookedLoad } from './pool-engines/booked-load.ts'
import { unavailability } from './decision/eligibility.ts'
import type { EngineState } from './pool-engines/engine-state.ts'

/** Output of a response where none has been seen, tokens. */
const UNKNOWN_OUTPUT_TOKENS = 256

/** Roles that serve requests of their own. */
const SERVING: readonly Role[] = ['any', 'prefill', 'decode']

interface CapacityQuery extends BookedLoad {
  readonly pool: PoolConfig
  readonly engines: readonly EngineState[]
  readonly arrivals: Arrivals
  /** Requests that wait for room or for an engine. */
  readonly waiting: number
  readonly now: number
}

/** Capacity of each role of a pool with an objective. null: gateways or providers serve the pool. */
export function poolCapacity(query: CapacityQuery): PoolCapacity | null {
  const { engines, arrivals, pool, now } = query
  const own = engines.filter(({ spec }) => !isOpaque(spec))
  if (own.length === 0 && engines.length > 0) return null
  const rates = arrivals.rates(now)
  const present = new Set([...own.map(({ spec }) => spec.role), ...rates.roles.keys()])
  for (const role of ['prefill', 'decode'] as const) if (pool.split.roles?.[role]) present.add(role)
  const roles = SERVING.filter((role) => present.has(role))
  return (roles.length === 0 ? (['any'] as const) : roles).map((role) =>
    roleCapacity(loadOf(role, { ...query, engines: own }, rates)),
  )
}

/**
 * Requests per second of the pool that its engines serve within the objective: the role that is exhausted first limits
 * it. null: unknown, as no request has been seen.
 */
export function statedRate(query: CapacityQuery): number | null {
  const engines = query.engines.filter(({ spec }) => !isOpaque(spec))
  const rates = query.arrivals.rates(query.now)
  if (rates.sampled === 0 || (engines.length === 0 && query.engines.length > 0)) return null
  const serving = [...rates.roles].filter(([role]) => SERVING.includes(role))
  const limits = serving.map(([role, work]) => {
    const load = loadOf(role, { ...query, engines }, rates)
    const perS = load.mix === null ? Infinity : servedRate(load.mix, load.engines, load.itlS)
    return (perS * rates.sampled) / work.requests
  })
  return Math.min(...limits)
}

function loadOf(
  role: Role,
  query: CapacityQuery,
  { requestsPerS, slopePerS2, roles, sampled }: ArrivalRates,
): RoleLoad {
  const { engines, load, ledger, pool, waiting, now } = query
  const { blockTokens, slo = null } = pool
  const work = roles.get(role)
  // Requests with unknown work are assumed to be like the others.
  const share = sampled === 0 ? 1 : (work?.requests ?? 0) / sampled
  const own = engines.filter(({ spec }) => spec.role === role)
  const joining: EnginePace = { step: decodeCostModelAt(0, blockTokens), places: Infinity, blocks: Infinity }
  return {
    role,
    requestsPerS: share * requestsPerS,
    slopePerS2: share * slopePerS2,
    mix: work?.mix(ledger.sources.output.tokens ?? UNKNOWN_OUTPUT_TOKENS, blockTokens) ?? null,
    engines: own
      .filter((engine) => unavailability(engine, 0, now) === null && !engine.isTooSlow)
      .map((engine) => paceOf(engine, query)),
    joining: own[0] === undefined ? joining : paceOf(own[0], query),
    running: own.reduce((sum, engine) => sum + load.digest(engine).requests, 0),
    waiting: share * waiting,
    itlS: slo?.itlMs == null ? Infinity : slo.itlMs / 1000,
  }
}

function paceOf(engine: EngineState, { pool, now }: CapacityQuery): EnginePace {
  const { stepFitter, hardwareClass, places, capacity } = engine.estimators
  return {
    step: stepFitter.blendedCostModel(hardwareClass.stepFitter, pool.blockTokens, now),
    places: Math.min(places.limit, engine.spec.maxInFlight ?? Infinity),
    // Admission regards memory only under an objective of the first token.
    blocks: pool.slo?.ttftMs == null ? Infinity : (capacity.declared ?? Infinity),
  }
}
