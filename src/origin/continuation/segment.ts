import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'

/** The events of one engine. */
export interface Segment {
  /** Failure that an event reported; null: none. Later events are ignored. */
  readonly failure: AttemptFailure | null
  /** Usage that the engine reported for its own request. */
  readonly usage: Usage | null
  /** Returns the records for the client. */
  take(record: string): string | Promise<string>
  /** Changes an event in place to that for the client. Returns its new end; -1: `take` it. Absent: always -1. */
  pass?(bytes: Uint8Array, from: number, to: number): number
}
