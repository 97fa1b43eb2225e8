import type { Candidate, Signal } from '../routing/policy.ts'
import type { Field } from '../routing/route.ts'
import type { Part } from './books.ts'
import { admits } from './circuit.ts'
import type { Admission, EngineSpec, ExclusionReason, Role } from './contract.ts'
import type { EngineRecord } from './engine-record.ts'
import type { PoolReading } from './pool-books.ts'

const PARTS_OF_ROLE: Readonly<Record<Role, readonly Part[]>> = {
  // It encodes too, but as part of serving whole: sending it the items alone would move them twice.
  any: ['whole', 'prefill', 'decode'],
  prefill: ['prefill'],
  // A decode engine can prefill for itself: that is what serving without a split means.
  decode: ['whole', 'decode'],
  encode: ['encode'],
}

export function mayDo(role: Role, part: Part): boolean {
  return PARTS_OF_ROLE[role].includes(part)
}

/** Does it serve the model or the adapter that was asked for? */
export function serves({ models }: Pick<EngineSpec, 'models'>, admission: Admission): boolean {
  return models === null || models.includes(admission.model) || (admission.adapter !== null && models.includes(admission.adapter))
}

/** Why the engine may not be given this request now; null: it may. Permanent reasons come before passing ones. */
export function exclusion(engine: EngineRecord, admission: Admission, facts: { readonly requests: number; readonly now: number }): ExclusionReason | null {
  if (!serves(engine.spec, admission)) return 'model'
  return unavailability(engine, facts) ?? (admission.avoid.includes(engine.spec.id) ? 'avoided' : null)
}

/** Why the engine may be given nothing now, whatever is asked; null: it may. */
export function unavailability(engine: EngineRecord, facts: { readonly requests: number; readonly now: number }): ExclusionReason | null {
  if (engine.removed || engine.draining) return 'draining'
  if (!engine.healthy) return 'unhealthy'
  if (engine.asleep) return 'asleep'
  if (!admits(engine.circuit, facts.now)) return 'circuit_open'
  const { maxInFlight } = engine.spec
  return maxInFlight !== null && facts.requests >= maxInFlight ? 'full' : null
}

/** Least recent work first; equal ones in a rotating order, so that an idle fleet is used in turn. */
export function inTieOrder(engines: readonly EngineRecord[], reading: PoolReading, rotation: number): EngineRecord[] {
  const start = engines.length === 0 ? 0 : rotation % engines.length
  const recentWork = reading.reader('recentWork')
  const work: number[] = []
  for (const engine of engines) work[engine.slot] = recentWork(engine) ?? 0
  return [...engines.slice(start), ...engines.slice(0, start)].sort((one, other) => work[one.slot]! - work[other.slot]!)
}

/** What the router may know of the engines: the signals a policy names and no others. */
export function fieldOf(engines: readonly EngineRecord[], reading: PoolReading): Field {
  return {
    ids: engines.map(({ spec }) => spec.id),
    candidates: (needs) => candidatesOf(engines, needs, reading),
  }
}

/** Engines that lack a needed signal are left out. */
function candidatesOf(engines: readonly EngineRecord[], needs: readonly Signal[], reading: PoolReading): Candidate[] {
  const readers = needs.map((signal) => reading.reader(signal))
  const candidates: Candidate[] = []
  for (const engine of engines) {
    const candidate = new KnownSignals(engine.spec.id, engine.spec.weight)
    let known = true
    for (let at = 0; known && at < needs.length; at++) {
      const value = readers[at]!(engine)
      candidate[needs[at]!] = value
      known = value !== undefined
    }
    // A policy sees only what it named: `definePolicy` narrows the type to its needs.
    if (known) candidates.push(candidate as unknown as Candidate)
  }
  return candidates
}

/** All fields from the start: objects that grow field by field are several times slower, and this is the hottest one. */
class KnownSignals implements Record<Signal, unknown> {
  readonly id: string
  readonly weight: number
  requests: unknown
  arrivals: unknown
  turn: unknown
  recentWork: unknown
  activeBlocks: unknown
  newActiveBlocks: unknown
  cachedTokens: unknown
  slowTokens: unknown
  lookupTokens: unknown
  queuedPrefills: unknown
  queuedPrefillTokens: unknown
  queuedWork: unknown
  queuedPrefillS: unknown
  reportedQueue: unknown
  capacityBlocks: unknown
  rttS: unknown
  law: unknown
  confidence: unknown
  decodeLaw: unknown
  warmth: unknown
  adapterFit: unknown

  constructor(id: string, weight: number) {
    this.id = id
    this.weight = weight
  }
}
