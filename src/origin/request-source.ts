import type { Continuable, NotContinued } from '../core/continuation/continuable.ts'
import type { Admission } from '../core/contract/admission.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { BodyEdit } from './body-edit.ts'
import type { PoolRoute } from './pool-route.ts'

/** What a request asks of a pool, the same for all of its attempts. */
export type RequestAdmission = Omit<Admission, 'attempt' | 'avoid' | 'configVersion'>

/**
 * What pools and engines get of the client's request. Calls in place of values, because values differ per pool (names,
 * blocks, vocabularies, edits) and per leg, most requests see one pool, and a body may have megabytes: each value is
 * computed for the pool that is tried. It depends on the request alone, and reports nothing upwards.
 */
export interface RequestSource {
  /** The parsed body; absent: the request cannot be split. */
  readonly json?: Readonly<Record<string, unknown>>
  /** The body for this pool: the original bytes with the gateway's edits; null: no body. */
  body(route: PoolRoute, edit?: BodyEdit): readonly Uint8Array[] | null
  admission(route: PoolRoute): RequestAdmission
  /**
   * Looks up external caches if the policy reads them, and adds the result to the pool's admission. Resolves with the
   * time taken. Stays within the pool's budget, never rejects, and runs once per pool. null: no lookup is needed.
   */
  lookUpCaches?(route: PoolRoute): Promise<StageTimes> | null
  /** Headers for another gateway, besides `others`: flat, lower-case. Absent: none. */
  gatewayHeaders?(route: PoolRoute, target: EngineTarget, others: readonly string[]): readonly string[]
  /**
   * What a continuation of the stream at another engine needs, or why it cannot be continued. `body` prepares it, since
   * the body decides whether the engine sends token ids: before, it is null. Absent, null: the stream is not continued.
   */
  continuation?(): Continuable | NotContinued | null
  /**
   * Answer of the gateway itself, if all engines lack the route. Absent: the engine's answer goes to the client. Throws
   * a Failure if there is none.
   */
  ownAnswer?(): Response
  /**
   * Releases the request: no further attempt needs it. `isWritten`: the bytes of the body are not read any more either.
   */
  release?(isWritten: boolean): void
}
