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
  /** A request with `isLastResort` would be tried. Absent: it would not. */
  readonly mayPanic?: boolean
  /** The request may wait for room in the queue of the pool (`Cluster.wait`). Absent: it may not. */
  readonly mayWait?: boolean
  /** Refusals of the pool per second. Absent: so few that edges ask for each request. */
  readonly refusalsPerS?: number
  readonly retryAfterMs: number
}
