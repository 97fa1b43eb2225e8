/** Signs of an engine's condition, from its bookings, probes, circuit and learned pace. */
import type { Signs } from './engine-condition.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import type { SiblingPaces } from './sibling-paces.ts'

/** Share of KV memory in use from which waiting requests wait for memory. */
const FULL_SHARE = 0.95

/** Silence after which an engine that does not serve trials counts as stopped, ms. */
const SILENT_UNTRIED_MS = 10_000

const CONTACT_FAILURES: ReadonlySet<string> = new Set(['connect', 'connect_timeout'])

interface SignSources {
  /** Since when output is overdue and nothing moves; null: it moves. */
  readonly silentSince: number | null
  readonly paces: SiblingPaces
  readonly now: number
}

export function signsOf(engine: EngineState, { silentSince, paces, now }: SignSources): Signs {
  const isOpen = engine.circuit.state !== 'closed'
  const hasStatus = engine.problem?.startsWith('status_') === true
  return {
    isSilent: silentSince !== null,
    hasFailedTrial: silentSince !== null && hasStopped(engine, silentSince, now),
    isOutOfContact:
      (!engine.healthy && !hasStatus) || (isOpen && CONTACT_FAILURES.has(engine.lastFailure?.failure ?? '')),
    isFailing: isOpen || (!engine.healthy && hasStatus),
    isFull: isFull(engine, now),
    isBehind: paces.isBehind(engine),
  }
}

/** A trial has failed, or the counters of the engine stand still; and they do not show that it works. */
function hasStopped(engine: EngineState, silentSince: number, now: number): boolean {
  const { trials, reported, owed } = engine
  const { hasLongPrefill } = owed
  if (reported.isAtWork({ since: silentSince, hasLongPrefill, now })) return false
  if (trials.failedAt >= silentSince || (trials.isUnserved && now - silentSince >= SILENT_UNTRIED_MS)) return true
  // Most counters stand still during a prefill.
  return reported.isStill(now) && !hasLongPrefill
}

function isFull(engine: EngineState, now: number): boolean {
  const stats = engine.statsAt(now)
  if (stats === null) return false
  const { waiting, kvUsage } = stats
  return waiting > 0 && kvUsage !== null && kvUsage >= FULL_SHARE
}
