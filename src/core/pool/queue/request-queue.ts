import type { Admission } from '../../contract/admission.ts'
import type { Usage } from '../../contract/outcome.ts'
import type { Refusal } from '../../contract/refusal.ts'

/** Requests that wait for room in a pool, as seen by the pool's other requests. */
export interface RequestQueue {
  /** Number of requests that wait. */
  readonly size: number
  /** Whether the refused request waits, or may begin to. */
  takes(admission: Admission, refusal: Refusal, now: number): boolean
  /** Whether a new request has to wait behind others. */
  holdsBack(admission: Admission, now: number): boolean
  /** Ends the wait of a request whose client has left. false: it does not wait. */
  leave(id: string): boolean
  /** Corrects the work that the key of a placed request is charged, when its response has ended. */
  ended(id: string, usage: Usage | null): void
  /** Time that the oldest request has waited, ms; 0: none waits. */
  oldestMs(now: number): number
  /** Places what has room now, and answers what has waited too long. */
  wake(now: number): void
}

/** Queue of a pool whose configuration has none. */
export const noQueue: RequestQueue = {
  size: 0,
  takes: () => false,
  holdsBack: () => false,
  leave: () => false,
  ended: () => undefined,
  oldestMs: () => 0,
  wake: () => undefined,
}
