/** Why no engine could be chosen. */
export type RefusalReason =
  | 'unconfigured'
  | 'no_engine'
  | 'engines_unavailable'
  | 'engines_full'
  | 'role_empty'
  | 'retry_budget'
  | 'overloaded'

export interface Refusal {
  readonly reason: RefusalReason
  /** Limit that an overloaded request exceeds. Absent for other reasons. */
  readonly limit?: 'ttft' | 'itl' | 'memory' | 'deadline' | 'waiting' | 'queue'
  /** Detail for operators, without addresses. */
  readonly detail: string
  /** The role without an engine, with its engines' labels: `role "prefill" (app=prefill)`. */
  readonly emptyRole?: string
  /**
   * All engines that could serve the request are away, and one may come back. `paused`: the operator holds requests
   * back. Absent: waiting for an engine is no use.
   */
  readonly away?: 'paused' | 'gone'
  /** A request with `isLastResort` would be tried. Absent: it would not. */
  readonly mayPanic?: boolean
  /** The request may wait for room in the queue of the pool (`PoolPort.wait`). Absent: it may not. */
  readonly mayWait?: boolean
  /** Refusals of the pool per second. Absent: so few that gateways ask for each request. */
  readonly refusalsPerS?: number
  readonly retryAfterMs: number
}

interface RefusalTraits {
  /** Order of the refusals of several clusters: the lowest is reported, because a retry helps it most. */
  readonly rank: number
  /** The pool lacks room: waiting or another pool may help, and the engines are not at fault. */
  readonly isFull: boolean
}

/** Handling of each refusal. The failure that the client gets is in src/origin/retry/client-failure.ts. */
const TRAITS: Readonly<Record<RefusalReason, RefusalTraits>> = {
  overloaded: { rank: 0, isFull: true },
  engines_full: { rank: 1, isFull: true },
  retry_budget: { rank: 2, isFull: false },
  role_empty: { rank: 3, isFull: false },
  engines_unavailable: { rank: 4, isFull: false },
  no_engine: { rank: 5, isFull: false },
  unconfigured: { rank: 6, isFull: false },
}

/** Traits of a reason that a pool state of a later version sent. */
const UNKNOWN_REASON: RefusalTraits = { rank: Infinity, isFull: false }

const traitsOf = ({ reason }: Refusal): RefusalTraits => TRAITS[reason] ?? UNKNOWN_REASON

/** Whether the pool lacks room. */
export const isPoolFull = (refusal: Refusal): boolean => traitsOf(refusal).isFull

/** Returns the refusal that a retry helps most; the first one of equal refusals. */
export const preferRetryable = (first: Refusal | null, second: Refusal): Refusal =>
  first === null || traitsOf(second).rank < traitsOf(first).rank ? second : first
