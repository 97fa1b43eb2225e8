/** Limits on how many engines of a pool are out of use at once, because of their circuits or their condition. */
import type { CircuitConfig } from '../../contract/pool-config.ts'
import type { EngineState } from './engine-state.ts'
import type { PoolEvent } from '../pool-events.ts'
import { overlaps } from '../decision/roles.ts'

/** Engines of a pool, and the settings of their circuits. */
export interface LimitedPool {
  readonly engines: readonly EngineState[]
  readonly circuit: CircuitConfig
}

interface Replacements {
  /** Other engines that can do a leg of the engine. */
  readonly others: readonly EngineState[]
  /** Number of them that get requests. */
  readonly inUse: number
  /** Maximum number of engines out of use, with this one. */
  readonly maxOut: number
}

/** Whether a sick engine may be taken out of use: not the last one, and not beyond the maximum share. */
export function mayTakeOut(engine: EngineState, pool: LimitedPool): boolean {
  const { others, inUse, maxOut } = replacementsOf(engine, pool)
  return inUse > 0 && others.length - inUse < maxOut
}

/** Cause of a failure for which a circuit could open. */
interface EjectionCause {
  /** All failures are those of one client's requests. */
  readonly isOneClient: boolean
  /** Other clusters could serve the request. */
  readonly hasAlternative: boolean
}

/**
 * Returns the limit that keeps a circuit closed: one client's failures do not eject the last available engine, and no
 * failures eject more than the maximum share. null: the circuit may open.
 */
export function ejectionLimit(
  engine: EngineState,
  pool: LimitedPool,
  { isOneClient, hasAlternative }: EjectionCause,
): NonNullable<PoolEvent['limit']> | null {
  const { others, inUse, maxOut } = replacementsOf(engine, pool)
  if (isOneClient && inUse === 0) return 'last_engine'
  // An engine that fails its health checks or sleeps was not ejected.
  const ejected = others.filter(({ circuit, isHeldOut }) => isHeldOut || circuit.state !== 'closed').length
  return hasAlternative || ejected < maxOut ? null : 'max_ejected_share'
}

function replacementsOf(engine: EngineState, { engines, circuit: { maxEjectedShare = 1 } }: LimitedPool): Replacements {
  const peers = engines.filter((one) => !one.isLeaving && overlaps(one.spec.role, engine.spec.role))
  const others = peers.filter((one) => one !== engine)
  return {
    others,
    inUse: others.filter(isInUse).length,
    maxOut: Math.max(1, Math.ceil(maxEjectedShare * peers.length)),
  }
}

const isInUse = ({ healthy, asleep, isHeldOut, circuit }: EngineState): boolean =>
  healthy && !asleep && !isHeldOut && circuit.state === 'closed'
