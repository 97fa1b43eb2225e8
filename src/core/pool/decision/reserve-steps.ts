/** Engines of providers, which serve as the reserve of a pool's own engines. */
import type { Admission } from '../../contract/admission.ts'
import type { PoolConfig } from '../../contract/pool-config.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import type { Exclusion } from './exclusion.ts'
import { supportsRole } from './roles.ts'

/** Steps of a decision that concern the reserve. */
export interface ReserveSteps {
  /**
   * Providers' engines that wait because another engine can serve the request, or another cluster may; or the other
   * engines if only a provider can. `trials`: engines that are able, too, but whose circuits are half-open.
   */
  exclusions(usable: readonly EngineState[], trials: readonly EngineState[], admission: Admission): readonly Exclusion[]
  /** Whether only providers' engines can serve the request. */
  isUsed(excluded: readonly Exclusion[], engines: readonly EngineState[]): boolean
  /** Whether any of these engines is a provider's. */
  isIn(engines: readonly EngineState[]): boolean
}

const NONE: readonly Exclusion[] = []

const noReserve: ReserveSteps = {
  exclusions: () => NONE,
  isUsed: () => false,
  isIn: () => false,
}

const providerReserve: ReserveSteps = {
  exclusions(usable, trials, admission) {
    const able = [...usable, ...trials]
    const external = able.filter(isExternal)
    if (external.length === 0) return NONE
    const own = able.filter((engine) => !isExternal(engine))
    const hasOther = own.some(({ spec }) => supportsRole(spec.role, 'whole'))
    if (admission.isLastResort !== true || hasOther) return external.map((engine) => ({ engine, reason: 'reserve' }))
    // A provider takes no part of a split request.
    return own.map((engine) => ({ engine, reason: 'role' }))
  },
  isUsed(excluded, engines) {
    const away = new Set(excluded.map(({ engine }) => engine))
    return engines.some((engine) => isExternal(engine) && !away.has(engine))
  },
  isIn: (engines) => engines.some(isExternal),
}

export const isExternal = ({ spec }: EngineState): boolean => spec.isExternal === true

export const reserveStepsOf = ({ engines }: PoolConfig): ReserveSteps =>
  engines.some((engine) => engine.isExternal === true) ? providerReserve : noReserve
