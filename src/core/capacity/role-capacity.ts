import type { RoleCapacity } from '../contract/pool-capacity.ts'
import type { Role } from '../contract/pool-config.ts'
import { engineRate, type EnginePace } from './engine-rate.ts'
import type { RequestMix } from './request-mix.ts'

/** Time in which waiting requests are to be served, seconds. */
const CATCH_UP_S = 60

/** Time beyond which a trend of five minutes says nothing, seconds. */
const HORIZON_S = 3_600

/** Arrivals at the engines of one role, and these engines. */
export interface RoleLoad {
  readonly role: Role
  readonly requestsPerS: number
  readonly slopePerS2: number
  /** null: no request has been seen. */
  readonly mix: RequestMix | null
  /** Engines that may get requests now. */
  readonly engines: readonly EnginePace[]
  /** An engine that would join. */
  readonly joining: EnginePace
  /** Requests that run, and those that wait for room or for an engine. */
  readonly running: number
  readonly waiting: number
  /** Objective of the time between tokens, seconds. Infinity: none. */
  readonly itlS: number
}

/** Returns what engines of a role can serve within the objective, and how many of them the arrivals need. */
export function roleCapacity(load: RoleLoad): RoleCapacity {
  const { role, mix, engines, joining, itlS, running, waiting } = load
  const requestsPerS = load.requestsPerS + waiting / CATCH_UP_S
  const isBusy = requestsPerS > 0 || running > 0
  if (mix === null)
    return {
      role,
      replicas: isBusy ? 1 : 0,
      neededEngines: 0,
      requestsPerS,
      spareRequestsPerS: null,
      exhaustionS: null,
    }
  const rate = servedRate(mix, engines, itlS)
  const perEngine = engines.length > 0 ? rate / engines.length : engineRate(mix, joining, itlS)
  const neededEngines = requestsPerS / perEngine
  const spareRequestsPerS = Math.max(0, rate - requestsPerS)
  return {
    role,
    replicas: isBusy ? Math.max(1, Math.ceil(neededEngines)) : 0,
    neededEngines,
    requestsPerS,
    spareRequestsPerS,
    exhaustionS: exhaustionS(spareRequestsPerS, load.slopePerS2, isBusy),
  }
}

/** Requests per second of this mix that the engines serve within the objective. */
export const servedRate = (mix: RequestMix, engines: readonly EnginePace[], itlS: number): number =>
  engines.reduce((sum, engine) => sum + engineRate(mix, engine, itlS), 0)

function exhaustionS(spareRequestsPerS: number, slopePerS2: number, isBusy: boolean): number | null {
  if (spareRequestsPerS === 0) return isBusy ? 0 : null
  const seconds = slopePerS2 > 0 ? spareRequestsPerS / slopePerS2 : Infinity
  return seconds > HORIZON_S ? null : seconds
}
