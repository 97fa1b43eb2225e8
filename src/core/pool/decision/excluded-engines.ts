/** Engines that one request cannot be given, with circuits respected. */
import type { Admission } from '../../contract/admission.ts'
import type { PoolConfig } from '../../contract/pool-config.ts'
import { mayBeLoaded, withoutAdapter } from './adapter-choice.ts'
import { exclusion, serves } from './eligibility.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import type { Exclusion } from './exclusion.ts'
import { isExternal, type ReserveSteps } from './reserve-steps.ts'
import { overlaps } from './roles.ts'

/** Maximum prompt length of a trial if a longer one has an alternative: its result is known soon. */
const TRIAL_TOKENS = 2048

/** Whether the request suits a trial: short, with a visible first token. */
function suitsTrial({ promptTokens, streams }: Admission): boolean {
  return promptTokens <= TRIAL_TOKENS && streams !== false
}

export interface ExclusionInput {
  readonly engines: readonly EngineState[]
  readonly admission: Admission
  readonly pool: PoolConfig
  readonly now: number
}

/** Engines excluded from the request, with circuits respected. */
export function excludedFrom({ engines, admission, pool, now }: ExclusionInput, reserve: ReserveSteps): Exclusion[] {
  const excluded: Exclusion[] = []
  const trials: EngineState[] = []
  const usable: EngineState[] = []
  let hasTooSlow = false
  const neededTokens = contextNeeded(engines, admission)
  const isLoadable = mayBeLoaded(engines, admission)
  const adapter = isLoadable ? null : neededAdapter(engines, admission, pool)
  for (let at = 0; at < engines.length; at++) {
    const engine = engines[at]!
    const reason =
      (engine.contextTokens ?? Infinity) < neededTokens || isTooSmall(engine, admission)
        ? 'context'
        : lacksAdapter(engine, adapter)
          ? 'model'
          : exclusion(engine, admission, engine.signals.requests, now)
    if (reason === null && engine.isTooSlow) hasTooSlow = true
    if (reason !== null) excluded.push({ engine, reason })
    else if (engine.circuit.state === 'closed') usable.push(engine)
    else trials.push(engine)
  }
  if (isLoadable) excluded.push(...withoutAdapter([...usable, ...trials], admission, now))
  if (hasTooSlow) excluded.push(...tooSlow(usable, excluded))
  excluded.push(...reserve.exclusions(usable, trials, admission))
  if (trials.length === 0 || usable.length === 0 || suitsTrial(admission)) return excluded
  for (const engine of trials) {
    const hasOther = usable.some(({ spec }) => overlaps(spec.role, engine.spec.role))
    if (hasOther && waitsForShort(engine, pool.circuit.openMs, now)) excluded.push({ engine, reason: 'circuit_open' })
  }
  return excluded
}

/** An engine that is far slower than its siblings serves what no other engine can serve. */
function tooSlow(usable: readonly EngineState[], excluded: readonly Exclusion[]): Exclusion[] {
  const left = usable.filter((one) => !excluded.some(({ engine }) => engine === one))
  return left.flatMap((engine) => {
    const hasOther = left.some((one) => !one.isTooSlow && !isExternal(one) && overlaps(one.spec.role, engine.spec.role))
    return engine.isTooSlow && hasOther ? [{ engine, reason: 'slow' } as const] : []
  })
}

/**
 * Adapter that an engine must have loaded: that of the request, if an engine reports it, or if clients may request no
 * others; else null: any engine may load it.
 */
function neededAdapter(
  engines: readonly EngineState[],
  { adapter }: Admission,
  { reportsAdapters = false }: PoolConfig,
): string | null {
  if (adapter === null || reportsAdapters) return adapter
  return engines.some(({ loadedAdapters }) => loadedAdapters?.includes(adapter) === true) ? adapter : null
}

const lacksAdapter = ({ loadedAdapters }: EngineState, adapter: string | null): boolean =>
  adapter !== null && loadedAdapters !== null && !loadedAdapters.includes(adapter)

/** Whether another engine's refusal shows that this one would refuse as well. */
const isTooSmall = ({ contextTokens }: EngineState, { beyondContextTokens }: Admission): boolean =>
  beyondContextTokens !== undefined && (contextTokens ?? 0) <= beyondContextTokens

/**
 * Context that an engine needs, tokens: that of the request, but at most the largest of the pool, whose engine then
 * answers for itself. A provider is no reason to pay for a request that is too long for the other engines.
 */
function contextNeeded(engines: readonly EngineState[], admission: Admission): number {
  const { promptTokens, outputLimitTokens = 0 } = admission
  let largest = 0
  for (const engine of engines)
    if (!isExternal(engine) && serves(engine.spec, admission))
      largest = Math.max(largest, engine.contextTokens ?? Infinity)
  return Math.min(promptTokens + outputLimitTokens, largest)
}

/** A short request is the better trial; without one, any request is admitted. */
function waitsForShort({ circuit }: EngineState, openMs: number, now: number): boolean {
  if (circuit.state === 'half_open') return circuit.trials.length > 0
  return circuit.state === 'open' && now < circuit.untilMs + openMs
}
