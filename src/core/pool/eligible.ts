import type { CandidateSet } from '../routing/route.ts'
import { sortPlaces } from '../routing/cost-table.ts'
import type { LegRole } from '../contract/legs.ts'
import { admits } from './circuit.ts'
import type { Admission, EngineSpec, ExclusionReason, Role } from '../contract/contract.ts'
import type { EngineState } from './engine-state.ts'
import type { SignalReader } from './signal-reader.ts'

const PARTS_OF_ROLE: Readonly<Record<Role, readonly LegRole[]>> = {
  // It encodes too, but as part of serving whole: sending it the items alone would move them twice.
  any: ['whole', 'prefill', 'decode'],
  prefill: ['prefill'],
  // A decode engine can prefill for itself: that is what serving without a split means.
  decode: ['whole', 'decode'],
  encode: ['encode'],
}

export function supportsRole(role: Role, part: LegRole): boolean {
  return PARTS_OF_ROLE[role].includes(part)
}

/** Does it serve the model or the adapter that was asked for? */
export function serves({ models }: Pick<EngineSpec, 'models'>, admission: Admission): boolean {
  return (
    models === null ||
    models.includes(admission.model) ||
    (admission.adapter !== null && models.includes(admission.adapter))
  )
}

/** Why the engine may not be given this request now; null: it may. Permanent reasons come before passing ones. */
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

/** The same of an engine whose circuit is open and is to be ignored. */
export function exclusionInPanic(engine: EngineState, admission: Admission, requests: number): ExclusionReason | null {
  return isFull(engine, requests) ? 'full' : avoidance(engine, admission)
}

const isFull = ({ spec: { maxInFlight } }: EngineState, requests: number): boolean =>
  maxInFlight !== null && requests >= maxInFlight

/** Do engines of these roles stand in for each other in some part of the work? */
export function overlaps(one: Role, other: Role): boolean {
  return PARTS_OF_ROLE[one].some((part) => PARTS_OF_ROLE[other].includes(part))
}

/** Prompts that a trial may have where another engine could take a longer one: its outcome is known soon. */
const TRIAL_TOKENS = 2048

/** Is the request one to try an engine with: short, and with a first token that is seen? */
export function suitsTrial({ promptTokens, streams }: Admission): boolean {
  return promptTokens <= TRIAL_TOKENS && streams !== false
}

/** Why the engine, with so many requests, may be given nothing now, whatever is asked; null: it may. */
export function unavailability(engine: EngineState, requests: number, now: number): ExclusionReason | null {
  if (engine.isLeaving) return 'draining'
  if (!engine.healthy) return 'unhealthy'
  if (engine.asleep) return 'asleep'
  if (!admits(engine.circuit, now)) return 'circuit_open'
  return isFull(engine, requests) ? 'full' : null
}

let places = new Int32Array(64)
let works = new Float64Array(64)

/** Least `recentWork` first; equal ones in a rotating order, so that an idle fleet is used in turn. */
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

/** The signals that are not known of every engine at all times. */
const MAY_BE_MISSING = ['lookupTokens', 'reportedQueue'] as const

/** What the router may know of the engines: the signals a policy names and no others. */
export function fieldOf(engines: readonly EngineState[], reading: SignalReader): CandidateSet {
  const seats = engines.map(({ signals, spec }) => {
    signals.weight = spec.weight
    return signals
  })
  return {
    engines: seats,
    candidates(needs) {
      for (const signal of needs) reading.fill(signal)
      if (!MAY_BE_MISSING.some((signal) => needs.includes(signal))) return seats
      return seats.filter((signals) =>
        MAY_BE_MISSING.every((signal) => !needs.includes(signal) || !Number.isNaN(signals[signal])),
      )
    },
  }
}
