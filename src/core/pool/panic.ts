/** What circuits mean for one choice: which engines they exclude, and when they are ignored (panic mode, as in Envoy). */
import type { Admission, PoolConfig } from '../contract/contract.ts'
import { admits } from './circuit.ts'
import { exclusion, exclusionInPanic, overlaps, serves, suitsTrial, supportsRole } from './eligible.ts'
import type { EngineState } from './engine-state.ts'
import type { Excluded } from './refusals.ts'
import type { LegRole } from '../contract/legs.ts'

interface Facts {
  readonly engines: readonly EngineState[]
  readonly admission: Admission
  readonly pool: PoolConfig
  readonly now: number
}

/** Engines that may not be given the request, circuits respected. */
export function excludedFrom({ engines, admission, pool, now }: Facts): Excluded[] {
  const excluded: Excluded[] = []
  const trials: EngineState[] = []
  const usable: EngineState[] = []
  for (let at = 0; at < engines.length; at++) {
    const engine = engines[at]!
    const reason = exclusion(engine, admission, engine.signals.requests, now)
    if (reason !== null) excluded.push({ engine, reason })
    else if (engine.circuit.state === 'closed') usable.push(engine)
    else trials.push(engine)
  }
  if (trials.length === 0 || usable.length === 0 || suitsTrial(admission)) return excluded
  for (const engine of trials) {
    const hasOther = usable.some(({ spec }) => overlaps(spec.role, engine.spec.role))
    if (hasOther && waitsForShort(engine, pool.circuit.openMs, now)) excluded.push({ engine, reason: 'circuit_open' })
  }
  return excluded
}

/** A short request is a better trial, but where none comes, any will do. */
function waitsForShort({ circuit }: EngineState, openMs: number, now: number): boolean {
  if (circuit.state === 'probing') return circuit.trials.length > 0
  return circuit.state === 'open' && now < circuit.untilMs + openMs
}

/** Without these nobody serves at all. */
const SERVING: readonly LegRole[] = ['whole']
/** Where these are missing, requests are served without a split, unless the pool is configured otherwise. */
const PREPARING: readonly LegRole[] = ['prefill', 'encode']

export interface Panic {
  /** Engines that may not be given the request although panic mode ignores circuits. */
  readonly excluded: readonly Excluded[]
  /** Circuits of prefill and encode engines besides: for a request that cannot be served without. */
  readonly excludedAtLast: readonly Excluded[]
}

/** null: enough engines are available, or circuits exclude none. */
export function panicOf(excluded: readonly Excluded[], facts: Facts): Panic | null {
  if (!((facts.pool.circuit.panicShare ?? 0) > 0) || !excluded.some(isByCircuit)) return null
  const serving = SERVING.filter((part) => isShort(part, facts))
  const preparing = PREPARING.filter((part) => isShort(part, facts))
  if (serving.length + preparing.length === 0) return null
  return {
    excluded: ignoring(excluded, serving, facts),
    excludedAtLast: ignoring(excluded, [...serving, ...preparing], facts),
  }
}

const isByCircuit = ({ reason }: Excluded): boolean => reason === 'circuit_open'

/** Is a smaller share of the engines available than `panicShare`? Full engines are available: they are well. */
function isShort(part: LegRole, { engines, admission, pool, now }: Facts): boolean {
  const hosts = engines.filter(
    (one) => !one.isLeaving && serves(one.spec, admission) && supportsRole(one.spec.role, part),
  )
  const available = hosts.filter(({ healthy, asleep, circuit }) => healthy && !asleep && admits(circuit, now))
  return hosts.length > 0 && available.length < (pool.circuit.panicShare ?? 0) * hosts.length
}

function ignoring(excluded: readonly Excluded[], parts: readonly LegRole[], { admission }: Facts): readonly Excluded[] {
  if (parts.length === 0) return excluded
  return excluded.flatMap((one) => {
    if (!isByCircuit(one) || !parts.some((part) => supportsRole(one.engine.spec.role, part))) return [one]
    const reason = exclusionInPanic(one.engine, admission, one.engine.signals.requests)
    return reason === null ? [] : [{ engine: one.engine, reason }]
  })
}
