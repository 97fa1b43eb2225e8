import type { Continuable, NotContinued } from '../core/continuation/continuable.ts'
import type { Admission } from '../core/contract/admission.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import type { RegionPreference } from '../core/routing/region-preference.ts'
import type { OpenRecord, RequestRecord } from '../core/reports/request-record.ts'
import type { AbortSignalLike } from '../ports/abort-signal.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { Protocol } from '../protocols/protocol.ts'
import type { BodyEdit } from './body-edit.ts'
import type { PoolRoute } from './pool-route.ts'
import type { WaitingRequests } from './placement/waiting-requests.ts'

/** An authorized request as `forward` needs it, independent of HTTP frameworks. */
export interface Exchange {
  /** The gateway's id: bookings, decisions and reports use it. */
  readonly id: string
  /** The client's label, or the id: returned, logged and forwarded, never used as a key. */
  readonly requestId: string
  /** `ports.now()` when the request came in. */
  readonly receivedAt: number
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Wire protocol of the request and its response. */
  readonly protocol: Protocol
  /** Answers that are no stream are JSON. Absent: any. */
  readonly expectsJson?: boolean
  /**
   * Answer of the gateway itself, if all engines lack the route. Absent: the engine's answer goes to the client. Throws
   * a Failure if there is none.
   */
  ownAnswer?(): Response
  /** Model name that the client requested. Absent: the answer keeps its own. */
  readonly requestedModel?: string
  /** Path and query for the engine. */
  readonly path: string
  /** Headers for the engine: flat, lower-case, without hop-by-hop headers and client credentials. */
  readonly headers: readonly string[]
  /** Additional headers for another gateway, in the same form. Absent: none. */
  forGateway?(route: PoolRoute, target: EngineTarget): readonly string[]
  /** Called with the headers of another gateway's response. */
  gatewayAnswered?(route: PoolRoute, headers: readonly string[]): void
  /** The body for this pool: the original bytes with the gateway's edits; null: no body. */
  body(route: PoolRoute, edit?: BodyEdit): readonly Uint8Array[] | null
  /** The parsed body; absent: the request cannot be split. */
  readonly json?: Readonly<Record<string, unknown>>
  /** The client asked for a stream. */
  readonly stream: boolean
  /** Read the response on the way: always if needed (usage stripping, no stream), else by `observeShare`. */
  readonly observe: boolean
  /** The gateway requested the usage record, and the client did not. */
  readonly hideUsage: boolean
  /** The part of the admission that is the same for all attempts. */
  admission(route: PoolRoute): Omit<Admission, 'attempt' | 'avoid' | 'configVersion'>
  /**
   * Looks up external caches if the policy reads them, and adds the result to the pool's admission. Resolves with the
   * time taken. Stays within the pool's budget, never rejects, and runs once per pool. null: no lookup is needed.
   */
  hints?(route: PoolRoute): Promise<StageTimes> | null
  /** Interval of SSE comments to the client while the engine sends nothing; 0: none. */
  readonly heartbeatMs: number
  /** Time that the client may read nothing; absent, 0: no limit. */
  readonly writeMs?: number
  /** Pools that serve the model, in the configured order. */
  readonly routes: readonly PoolRoute[]
  /** Order in which regions are tried. Absent, null: by predicted time. */
  readonly regionPreference?: RegionPreference | null
  /** Version of the configuration that has these routes. */
  readonly configVersion: number
  /** The only engine that can serve the request (stateful calls); null: any. */
  readonly pinned: { readonly cluster: string; readonly engine: string } | null
  /** Stages before `forward`, ms. */
  readonly stages: StageTimes
  /** Further headers for the client, flat: CORS, the limits of its key, and what an edge may send. */
  readonly clientHeaders: readonly string[]
  readonly scope: RequestScope
  /** Where requests that wait for room are known. Absent: requests do not wait. */
  readonly waits?: WaitingRequests | undefined
  /** Aborted when the client disconnects, as far as the runtime reports it. */
  readonly signal: AbortSignalLike
  /**
   * Called when the response to the client starts: no further attempt needs the request. `written`: the bytes of the
   * body are not read any more either.
   */
  onResponseStart?(written: boolean): void
  /** Called with the engine that holds the response `id`, before the client can read the id. For stateful endpoints. */
  onResponseId?(holder: { readonly cluster: string; readonly engine: string }, id: string): void
  /** Send the stages to the client in a last SSE comment, if the stream is observed. */
  readonly lastComment?: boolean
  /** Filled in while the request runs: placement, attempts, stages, end. */
  readonly record: OpenRecord
  /**
   * What a continuation of the stream at another engine needs, or why it cannot be continued. Valid after `body` of the
   * same route. Absent, null: streams are not continued.
   */
  continuation?(route: PoolRoute): Continuable | NotContinued | null
  /** Counts the cost of a booking that was released. Absent: the request is charged to no key. */
  charge?(route: PoolRoute, key: string): void
  /** Called exactly once, when `record` is complete: after the last byte, or before `forward` throws. */
  onEnd?(): void
}

/** Completes the record of an exchange and reports the end. */
export function endExchange(
  exchange: Exchange,
  end: Pick<RequestRecord, 'status' | 'result' | 'failedAttempts' | 'stages' | 'usage'>,
  now: number,
): void {
  Object.assign(exchange.record, end)
  exchange.record.durationMs = Math.max(0, now - exchange.receivedAt)
  exchange.onEnd?.()
}
