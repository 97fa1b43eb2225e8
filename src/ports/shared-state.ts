import type { KibCount } from './kib-count.ts'
import type { Limiter } from './limiter.ts'
import type { StoredResponses } from './stored-responses.ts'

/** State that a gateway shares with other threads, replicas or isolates. What is absent, it keeps for itself. */
export interface SharedState {
  /** Locations of stored responses. */
  readonly storedResponses?: StoredResponses | undefined
  /** Limits and budgets per key. */
  readonly limiter?: Limiter | undefined
  /** Memory of request bodies in all threads. */
  readonly bodyKib?: KibCount | undefined
}
