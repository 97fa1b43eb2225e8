import type { Admission } from '../contract/admission.ts'
import type { ExclusionReason } from '../contract/decision.ts'
import type { SplitRoles } from '../contract/pool-config.ts'
import type { Refusal } from '../contract/refusal.ts'
import { waitMs } from './pool-engines/circuit.ts'
import { serves } from './decision/eligibility.ts'
import type { EngineState } from './pool-engines/engine-state.ts'
import type { Exclusion } from './decision/exclusion.ts'
import { supportsRole } from './decision/roles.ts'

/** Retry-After of a full pool, milliseconds: requests end continually. */
const FULL_RETRY_MS = 1000

const MIN_RETRY_MS = 1000

const MAX_RETRY_MS = 30_000

/** Retry-After if only a new configuration helps, milliseconds. */
const CONFIG_RETRY_MS = 10_000

export const unconfigured: Refusal = {
  reason: 'unconfigured',
  detail: 'the Durable Object does not have this version of the configuration',
  retryAfterMs: 0,
}

export const retryBudgetSpent: Refusal = {
  reason: 'retry_budget',
  detail: 'the retry budget is spent',
  retryAfterMs: MIN_RETRY_MS,
}

export const notWedged: Refusal = {
  reason: 'retry_budget',
  detail: 'the engine of the first attempt is not wedged',
  retryAfterMs: MIN_RETRY_MS,
}

/** Someone else waits, so a new request may not take the room. */
export const behindOthers: Refusal = {
  reason: 'overloaded',
  limit: 'queue',
  detail: 'other requests wait for room',
  retryAfterMs: FULL_RETRY_MS,
}

/** Why a request that left, or whose connection was replaced, is not placed. */
export const leftQueue: Refusal = { ...behindOthers, detail: 'the request no longer waits' }

export const queueFull: Refusal = { ...behindOthers, detail: 'the queue of the pool is full' }

/** Why waiting requests are answered when the configuration changes. */
export const queueClosed: Refusal = { ...behindOthers, detail: 'the pool no longer has a queue' }

interface RefusalFacts {
  readonly now: number
  readonly statsIntervalMs: number
  readonly mayPanic?: boolean
  /** Leg of a required split for which there is no engine; null: none. */
  readonly missing?: 'prefill' | 'decode' | null
  /** Roles as configured, for pools whose engines are discovered. */
  readonly roles?: SplitRoles | undefined
}

/** Builds the refusal: reason, detail, and when a retry makes sense. */
export function refuse(
  engines: Iterable<EngineState>,
  admission: Admission,
  excluded: readonly Exclusion[],
  facts: RefusalFacts,
): Refusal {
  const panic = facts.mayPanic === true ? { mayPanic: true } : {}
  const present = [...engines].filter(({ removed }) => !removed)
  const serving = present.filter((engine) => serves(engine.spec, admission))
  const emptyRole = (role: 'prefill' | 'decode') => roleEmpty(role, { serving, excluded, labels: facts.roles?.[role] })
  if (present.length === 0 && facts.roles?.decode !== undefined)
    return { ...emptyRole('decode'), retryAfterMs: CONFIG_RETRY_MS, away: 'gone' }
  if (serving.length === 0)
    return {
      reason: 'no_engine',
      detail: `no engine serves "${admission.model}"`,
      retryAfterMs: CONFIG_RETRY_MS,
      ...(present.length === 0 ? { away: 'gone' } : {}),
    }
  const able = serving.filter((engine) => supportsRole(engine.spec.role, 'whole'))
  const away = excluded.filter(({ engine }) => able.includes(engine))
  if (away.length < able.length || able.length === 0)
    return {
      ...emptyRole(facts.missing ?? 'decode'),
      retryAfterMs: clamp(facts.statsIntervalMs),
      away: 'gone',
      ...panic,
    }
  if (away.some(({ reason }) => reason === 'full'))
    return { reason: 'engines_full', detail: summary(away), retryAfterMs: FULL_RETRY_MS, ...panic }
  const retryMs = clamp(Math.min(...away.map((one) => retryAfterMs(one, facts))))
  // Decode engines also serve whole requests, so without them prefill engines are of no use.
  if (serving.some(({ spec }) => spec.role === 'prefill'))
    return { ...emptyRole('decode'), retryAfterMs: retryMs, away: 'gone', ...panic }
  return {
    reason: 'engines_unavailable',
    detail: summary(away),
    retryAfterMs: retryMs,
    ...returning(away),
    ...panic,
  }
}

function returning(excluded: readonly Exclusion[]): Pick<Refusal, 'away'> {
  if (excluded.some(({ reason }) => reason === 'paused')) return { away: 'paused' }
  return excluded.some(({ reason }) => RETURNING.has(reason)) ? { away: 'gone' } : {}
}

/** Reasons that end without another request: the engine starts, wakes or is let in again. */
const RETURNING: ReadonlySet<ExclusionReason> = new Set(['unhealthy', 'asleep', 'draining', 'circuit_open', 'wedged'])

/** Labels named in a refusal. */
const MAX_LABELS = 4

interface RoleFacts {
  /** Engines that serve the model. */
  readonly serving: readonly EngineState[]
  readonly excluded: readonly Exclusion[]
  /** Labels as configured. undefined: those of the engines. */
  readonly labels: readonly string[] | undefined
}

function roleEmpty(
  role: 'prefill' | 'decode',
  { serving, excluded, labels: configured }: RoleFacts,
): Pick<Refusal, 'reason' | 'detail' | 'emptyRole'> {
  const own = serving.filter(({ spec }) => spec.role === role)
  const ofEngines = own.flatMap(({ spec }) => Object.entries(spec.labels).map(([name, value]) => `${name}=${value}`))
  const labels = [...new Set(configured ?? ofEngines)]
  const emptyRole = `role "${role}"${labels.length === 0 ? '' : ` (${labels.slice(0, MAX_LABELS).join(', ')})`}`
  const away = excluded.filter(({ engine }) => own.includes(engine))
  const state =
    own.length > 0 ? summary(away) : configured === undefined ? 'none configured for this model' : 'none found'
  return { reason: 'role_empty', detail: `no engine for ${emptyRole}: ${state}`, emptyRole }
}

function retryAfterMs(
  { engine, reason }: Exclusion,
  facts: { readonly now: number; readonly statsIntervalMs: number },
): number {
  if (reason === 'wedged') return MIN_RETRY_MS
  if (reason === 'circuit_open') return waitMs(engine.circuit, facts.now) ?? facts.statsIntervalMs
  return reason === 'draining' ? CONFIG_RETRY_MS : facts.statsIntervalMs
}

function clamp(ms: number): number {
  return Math.min(Math.max(ms, MIN_RETRY_MS), MAX_RETRY_MS)
}

/** "2 unhealthy, 1 draining" */
function summary(excluded: readonly Exclusion[]): string {
  const counts = new Map<ExclusionReason, number>()
  for (const { reason } of excluded) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  return [...counts].map(([reason, count]) => `${count} ${reason}`).join(', ')
}
