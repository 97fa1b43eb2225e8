/** Signs of an engine's condition, from its bookings, probes, circuit and learned pace. */
import type { Signs } from './engine-condition.ts'
import type { EngineState } from './engine-state.ts'

/** Age from which reported values are no sign, ms. */
const STATS_VALID_MS = 60_000

/** Share of KV memory in use from which waiting requests wait for memory. */
const FULL_SHARE = 0.95

/** Multiple of its siblings' median pace from which an engine is slow. */
const SLOW_TIMES = 3

/** Silence of an engine that does not serve trials after which none is needed, ms. */
const UNTRIED_MS = 10_000

const CONTACT_FAILURES: ReadonlySet<string> = new Set(['connect', 'connect_timeout'])

interface SignSources {
  readonly engines: readonly EngineState[]
  /** Since when output is overdue and nothing moves; null: it moves. */
  readonly silentSince: number | null
  /** Seconds of a usual prompt by the engine's own pace; null: not learned. */
  readonly pace: (engine: EngineState) => number | null
  readonly now: number
}

export function signsOf(engine: EngineState, { engines, silentSince, pace, now }: SignSources): Signs {
  const isOpen = engine.circuit.state !== 'closed'
  const hasStatus = engine.problem?.startsWith('status_') === true
  return {
    isSilent: silentSince !== null,
    hasFailedTrial:
      silentSince !== null &&
      (engine.trialFailedAt >= silentSince || (engine.isUntriable && now - silentSince >= UNTRIED_MS)),
    isOutOfContact:
      (!engine.healthy && !hasStatus) || (isOpen && CONTACT_FAILURES.has(engine.lastFailure?.failure ?? '')),
    isFailing: isOpen || (!engine.healthy && hasStatus),
    isFull: isFull(engine, now),
    isBehind: isBehind(engine, engines, pace),
  }
}

function isFull({ stats }: EngineState, now: number): boolean {
  if (stats === null || now - stats.at > STATS_VALID_MS) return false
  const { waiting, kvUsage } = stats.value
  return waiting > 0 && kvUsage !== null && kvUsage >= FULL_SHARE
}

function isBehind(
  engine: EngineState,
  engines: readonly EngineState[],
  pace: (engine: EngineState) => number | null,
): boolean {
  const own = pace(engine)
  if (own === null) return false
  const { role, profile } = engine.spec
  const others = engines
    .filter((one) => one !== engine && one.spec.role === role && one.spec.profile === profile)
    .flatMap((one) => pace(one) ?? [])
    .sort((a, b) => a - b)
  const median = others[others.length >> 1]
  return median !== undefined && own > SLOW_TIMES * median
}
