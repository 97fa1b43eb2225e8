import type { CandidateSet } from '../routing/route.ts'
import { sortPlaces } from '../routing/cost-table.ts'
import type { LegRole } from '../contract/legs.ts'
import { admits } from './circuit.ts'
import type { Admission, EngineSpec, ExclusionReason, Role, PoolConfig } from '../contract/contract.ts'
import type { EngineState } from './engine-state.ts'
import type { SignalReader } from './signal-reader.ts'
import type { Excluded } from './refusals.ts'

const PARTS_OF_ROLE: Readonly<Record<Role, readonly LegRole[]>> = {
  // An `any` engine encodes as part of a whole request: sending only the items would transfer them twice.
  any: ['whole', 'prefill', 'decode'],
  prefill: ['prefill'],
  // A decode engine can prefill for itself: that is what serving without a split means.
  decode: ['whole', 'decode'],
  encode: ['encode'],
}

export function supportsRole(role: Role, part: LegRole): boolean {
  return PARTS_OF_ROLE[role].includes(part)
}

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

const avoidance = ({ spec }: EngineState, { avoid }: Admission): ExclusionReason | null =>
  avoid.includes(spec.id) ? 'avoided' : null

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

/** Whether engines of these roles can replace each other for some leg. */
export function overlaps(one: Role, other: Role): boolean {
  return PARTS_OF_ROLE[one].some((part) => PARTS_OF_ROLE[other].includes(part))
}

/** Maximum prompt length of a trial if a longer one has an alternative: its result is known soon. */
const TRIAL_TOKENS = 2048

/** Whether the request suits a trial: short, with a visible first token. */
export function suitsTrial({ promptTokens, streams }: Admission): boolean {
  return promptTokens <= TRIAL_TOKENS && streams !== false
}

/** Returns why an engine with this many requests accepts no new ones; null: it does. */
export function unavailability(engine: EngineState, requests: number, now: number): ExclusionReason | null {
  if (engine.isLeaving) return 'draining'
  if (!engine.healthy) return 'unhealthy'
  if (engine.asleep) return 'asleep'
  if (!admits(engine.circuit, now)) return 'circuit_open'
  return isFull(engine, requests) ? 'full' : null
}

let places = new Int32Array(64)
let works = new Float64Array(64)

/** Sorts by `recentWork`; equal engines in rotating order, so that an idle fleet is used evenly. */
export function tieOrder(engines: readonly EngineState[], rotation: number): EngineState[] {
  const count = engines.length
  if (places.length < count) {
    places = new Int32Array(2 * count)
    works = new Float64Array(2 * count)
  }
  for (let at = 0; at < count; at++) {
    places[at] = (rotation + at) % count
    works[at] = engines[at]!.signals.recentWork
  }
  sortPlaces(places, works, 0, count)
  const inOrder = engines.slice()
  for (let at = 0; at < count; at++) inOrder[at] = engines[places[at]!]!
  return inOrder
}

/** Signals that may be missing for an engine. */
const MAY_BE_MISSING = ['lookupTokens'] as const

/** Candidate set for the router: fills the signals that a policy needs. */
export function fieldOf(engines: readonly EngineState[], reading: SignalReader): CandidateSet {
  const rows = engines.map(({ signals, spec }) => {
    signals.weight = spec.weight
    return signals
  })
  return {
    engines: rows,
    candidates(needs) {
      for (const signal of needs) reading.fill(signal)
      if (!MAY_BE_MISSING.some((signal) => needs.includes(signal))) return rows
      return rows.filter((signals) =>
        MAY_BE_MISSING.every((signal) => !needs.includes(signal) || !Number.isNaN(signals[signal])),
      )
    },
  }
}

/** Candidates for a decode leg: an uncached token costs its transfer, as a share of the time to compute it. */
export function receivingFieldOf(engines: readonly EngineState[], reading: SignalReader): CandidateSet {
  const field = fieldOf(engines, reading)
  const shares = new Map(engines.map((engine) => [engine.spec.id, reading.transferShare(engine)]))
  return {
    engines: field.engines,
    candidates: (needs) =>
      field.candidates(needs).map((row) => {
        const uncached = reading.promptTokens - row.cachedTokens
        return { ...row, cachedTokens: reading.promptTokens - uncached * (shares.get(row.id) ?? 1) }
      }),
  }
}

/* Exclusions by circuits for one decision, and panic mode, as in Envoy. */

interface Facts {
  readonly engines: readonly EngineState[]
  readonly admission: Admission
  readonly pool: PoolConfig
  readonly now: number
}

/** Engines excluded from the request, with circuits respected. */
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
  excluded.push(...reserveOf([...usable, ...trials], admission))
  if (trials.length === 0 || usable.length === 0 || suitsTrial(admission)) return excluded
  for (const engine of trials) {
    const hasOther = usable.some(({ spec }) => overlaps(spec.role, engine.spec.role))
    if (hasOther && waitsForShort(engine, pool.circuit.openMs, now)) excluded.push({ engine, reason: 'circuit_open' })
  }
  return excluded
}

const isExternal = ({ spec }: EngineState): boolean => spec.isExternal === true

/**
 * Providers' engines that wait because another engine can serve the request, or another cluster may; or the other
 * engines if only a provider can.
 */
function reserveOf(able: readonly EngineState[], admission: Admission): Excluded[] {
  const external = able.filter(isExternal)
  if (external.length === 0) return []
  const own = able.filter((engine) => !isExternal(engine))
  const hasOther = own.some(({ spec }) => supportsRole(spec.role, 'whole'))
  if (admission.isLastResort !== true || hasOther) return external.map((engine) => ({ engine, reason: 'reserve' }))
  // A provider takes no part of a split request.
  return own.map((engine) => ({ engine, reason: 'role' }))
}

/** Whether only providers' engines can serve the request. */
export function usesReserve(excluded: readonly Excluded[], { engines }: Facts): boolean {
  const away = new Set(excluded.map(({ engine }) => engine))
  return engines.some((engine) => isExternal(engine) && !away.has(engine))
}

/** A short request is the better trial; without one, any request is admitted. */
function waitsForShort({ circuit }: EngineState, openMs: number, now: number): boolean {
  if (circuit.state === 'probing') return circuit.trials.length > 0
  return circuit.state === 'open' && now < circuit.untilMs + openMs
}

/** Roles without which no request can be served. */
const SERVING: readonly LegRole[] = ['whole']
/** Roles without which requests are served unsplit, unless the pool is configured otherwise. */
const PREPARING: readonly LegRole[] = ['prefill', 'encode']

export interface Panic {
  /** Engines excluded although panic mode ignores circuits. */
  readonly excluded: readonly Excluded[]
  /** Also ignores circuits of prefill and encode engines, for a request that needs them. */
  readonly excludedAtLast: readonly Excluded[]
}

/** Returns null if enough engines are available or circuits exclude none. */
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

/** Whether fewer than `panicShare` of the engines are available. Full engines count as available. */
function isShort(part: LegRole, { engines, admission, pool, now }: Facts): boolean {
  const hosts = engines.filter(
    (one) => !one.isLeaving && !isExternal(one) && serves(one.spec, admission) && supportsRole(one.spec.role, part),
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
