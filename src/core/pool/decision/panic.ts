/** Panic mode, as in Envoy: circuits are ignored while too few engines are available. */
import type { LegRole } from '../../contract/legs.ts'
import { admits } from '../pool-engines/circuit.ts'
import { exclusionInPanic, serves } from './eligibility.ts'
import type { ExclusionInput } from './excluded-engines.ts'
import type { Exclusion } from './exclusion.ts'
import { isExternal } from './reserve-steps.ts'
import { supportsRole } from './roles.ts'

/** Roles without which no request can be served. */
const SERVING: readonly LegRole[] = ['whole']

/** Roles without which requests are served unsplit, unless the pool is configured otherwise. */
const PREPARING: readonly LegRole[] = ['prefill', 'encode']

interface Panic {
  /** Engines excluded although panic mode ignores circuits. */
  readonly excluded: readonly Exclusion[]
  /** Also ignores circuits of prefill and encode engines, for a request that needs them. */
  readonly excludedAtLast: readonly Exclusion[]
}

/** Returns null if enough engines are available or circuits exclude none. */
export function panicOf(excluded: readonly Exclusion[], facts: ExclusionInput): Panic | null {
  if (!((facts.pool.circuit.panicShare ?? 0) > 0) || !excluded.some(isByCircuit)) return null
  const serving = SERVING.filter((legRole) => isShort(legRole, facts))
  const preparing = PREPARING.filter((legRole) => isShort(legRole, facts))
  if (serving.length + preparing.length === 0) return null
  return {
    excluded: ignoring(excluded, serving, facts),
    excludedAtLast: ignoring(excluded, [...serving, ...preparing], facts),
  }
}

const isByCircuit = ({ reason }: Exclusion): boolean => reason === 'circuit_open'

/** Whether fewer than `panicShare` of the engines are available. Full engines count as available. */
function isShort(legRole: LegRole, { engines, admission, pool, now }: ExclusionInput): boolean {
  const hosts = engines.filter(
    (one) => !one.isLeaving && !isExternal(one) && serves(one.spec, admission) && supportsRole(one.spec.role, legRole),
  )
  const available = hosts.filter(({ healthy, asleep, circuit }) => healthy && !asleep && admits(circuit, now))
  return hosts.length > 0 && available.length < (pool.circuit.panicShare ?? 0) * hosts.length
}

function ignoring(
  excluded: readonly Exclusion[],
  legRoles: readonly LegRole[],
  { admission }: ExclusionInput,
): readonly Exclusion[] {
  if (legRoles.length === 0) return excluded
  return excluded.flatMap((one) => {
    if (!isByCircuit(one) || !legRoles.some((legRole) => supportsRole(one.engine.spec.role, legRole))) return [one]
    const reason = exclusionInPanic(one.engine, admission, one.engine.signals.requests)
    return reason === null ? [] : [{ engine: one.engine, reason }]
  })
}
