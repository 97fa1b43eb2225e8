/** Condition of one engine, as a state machine: pure, with its transitions in a table. */
import type { Condition } from '../../contract/pool-digest.ts'

/** What is observed of an engine at one time. */
export interface Signs {
  /** Output is overdue, and nothing has moved since it was due. */
  readonly isSilent: boolean
  /** A trial during the silence was not answered in time, or counters of the engine stand still. */
  readonly hasFailedTrial: boolean
  /** The last health check or the last requests found no contact. */
  readonly isOutOfContact: boolean
  /** Its circuit is not closed, or its health check reports a fault. */
  readonly isFailing: boolean
  /** It reports requests that wait for memory or places. */
  readonly isFull: boolean
  /** Its pace is a multiple of that of its siblings. */
  readonly isBehind: boolean
}

interface Rule {
  readonly condition: Condition
  /** Whether the signs are those of the condition. */
  readonly holds: (signs: Signs, from: Condition) => boolean
  /** Time for which the signs must hold before the condition begins, ms. */
  readonly enterMs: number
  /** Time for which they must be absent before it ends, ms. */
  readonly leaveMs: number
}

/** In order of precedence. A silent engine that was wedged stays so until it moves. */
const RULES: readonly Rule[] = [
  { condition: 'unreachable', holds: ({ isOutOfContact }) => isOutOfContact, enterMs: 0, leaveMs: 0 },
  {
    condition: 'wedged',
    holds: ({ isSilent, hasFailedTrial }, from) => isSilent && (hasFailedTrial || from === 'wedged'),
    enterMs: 0,
    leaveMs: 0,
  },
  { condition: 'faulty', holds: ({ isFailing }) => isFailing, enterMs: 0, leaveMs: 0 },
  { condition: 'suspect', holds: ({ isSilent }) => isSilent, enterMs: 0, leaveMs: 0 },
  { condition: 'saturated', holds: ({ isFull }) => isFull, enterMs: 5_000, leaveMs: 10_000 },
  { condition: 'slow', holds: ({ isBehind }) => isBehind, enterMs: 5_000, leaveMs: 10_000 },
  { condition: 'well', holds: () => true, enterMs: 0, leaveMs: 0 },
]

const ruleOf = (condition: Condition): Rule => RULES.find((rule) => rule.condition === condition)!

/** Condition with its history. Times are ms since the epoch. */
export interface ConditionState {
  readonly condition: Condition
  readonly since: number
  /** Condition that the signs show instead, and since when; null: the same. */
  readonly next: { readonly condition: Condition; readonly since: number } | null
}

export const wellSince = (now: number): ConditionState => ({ condition: 'well', since: now, next: null })

/** Whether an engine in this condition serves no requests. */
export const isDown = (condition: Condition): boolean =>
  condition === 'wedged' || condition === 'unreachable' || condition === 'faulty'

/** Returns the state after these signs; the same object if nothing changes. */
export function observed(state: ConditionState, signs: Signs, now: number): ConditionState {
  const shown = RULES.find(({ holds }) => holds(signs, state.condition))!
  if (shown.condition === state.condition) return state.next === null ? state : { ...state, next: null }
  const next = state.next?.condition === shown.condition ? state.next : { condition: shown.condition, since: now }
  const isWorse = RULES.indexOf(shown) < RULES.indexOf(ruleOf(state.condition))
  const heldMs = now - next.since
  if (heldMs < (isWorse ? shown.enterMs : ruleOf(state.condition).leaveMs))
    return state.next === next ? state : { ...state, next }
  if (heldMs >= shown.enterMs) return { condition: shown.condition, since: next.since, next: null }
  // What was worse is over, and what the signs show has not lasted yet.
  const meanwhile = RULES.find(({ holds, enterMs }) => enterMs === 0 && holds(signs, state.condition))!
  return { condition: meanwhile.condition, since: now, next }
}
