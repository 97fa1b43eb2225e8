import type { Admission } from '../../contract/admission.ts'
import type { ExclusionReason } from '../../contract/decision.ts'
import type { EngineSpec } from '../../contract/pool-config.ts'
import { admits } from '../pool-engines/circuit.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'

/** Whether the engine serves the requested model or adapter. */
export function serves({ models }: Pick<EngineSpec, 'models'>, admission: Admission): boolean {
  return (
    models === null ||
    models.includes(admission.model) ||
    (admission.adapter !== null && models.includes(admission.adapter))
  )
}

/** Returns why the engine cannot serve this request now; null: it can. Permanent reasons come first. */
export function exclusion(
  engine: EngineState,
  admission: Admission,
  requests: number,
  now: number,
): ExclusionReason | null {
  if (!serves(engine.spec, admission)) return 'model'
  return unavailability(engine, requests, now) ?? avoidance(engine, admission)
}

/** Avoiding a server avoids its ranks. */
const avoidance = ({ spec: { id, server } }: EngineState, { avoid }: Admission): ExclusionReason | null =>
  avoid.length > 0 && (avoid.includes(id) || (server !== undefined && avoid.includes(server))) ? 'avoided' : null

/** Returns why the engine cannot serve this request if its circuit is ignored; null: it can. */
export function exclusionInPanic(engine: EngineState, admission: Admission, requests: number): ExclusionReason | null {
  return isFull(engine, requests) ? 'full' : avoidance(engine, admission)
}

function isFull({ spec: { maxInFlight }, share }: EngineState, requests: number): boolean {
  if (maxInFlight === null) return false
  if (share === null) return requests >= maxInFlight
  // At least one, so that each process finds out when the engine is free.
  const part = Math.min(Math.ceil(maxInFlight * share.fraction), maxInFlight - share.elsewhere)
  return requests >= Math.max(1, part)
}

/** Returns why an engine with this many requests accepts no new ones; null: it does. */
export function unavailability(engine: EngineState, requests: number, now: number): ExclusionReason | null {
  if (engine.isLeaving) return 'draining'
  if (engine.paused !== null) return 'paused'
  if (!engine.healthy) return 'unhealthy'
  if (engine.asleep) return 'asleep'
  if (engine.isTakenOut) return 'wedged'
  if (engine.isQuarantined) return 'quarantined'
  if (!admits(engine.circuit, now)) return 'circuit_open'
  return isFull(engine, requests) ? 'full' : null
}
