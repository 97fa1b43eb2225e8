import type { StageTimes } from '../core/contract/stages.ts'
import type { RegionPreference } from '../core/routing/region-preference.ts'
import type { OpenRecord, RequestRecord } from '../core/reports/request-record.ts'
import type { AbortSignalLike } from '../ports/abort-signal.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { StoredResponses } from '../ports/stored-responses.ts'
import type { Protocol } from '../protocols/protocol.ts'
import type { LongWait } from './long-wait.ts'
import type { PoolRoute } from './pool-route.ts'
import type { RequestSource } from './request-source.ts'
import type { WaitingRequests } from './placement/waiting-requests.ts'

/** Where the engine of an answer is recorded, and under which names: later requests name the answer by its id. */
export interface ResponseStorage {
  readonly responses: Pick<StoredResponses, 'keep'>
  readonly tenant: string
  readonly model: string
}

/**
 * An authorized request as `forward` needs it, independent of HTTP frameworks: plain data, but for the request's own
 * values per pool (`source`) and the receiver of its end (`observer`).
 */
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
  /** Answers that are no stream are JSON. false: any answer is good. */
  readonly expectsJson: boolean
  /** Model name that the client requested. null: the answer keeps its own. */
  readonly requestedModel: string | null
  /** Path and query for the engine. */
  readonly path: string
  /** Headers for the engine: flat, lower-case, without hop-by-hop headers and client credentials. */
  readonly headers: readonly string[]
  readonly source: RequestSource
  /** The client asked for a stream. */
  readonly stream: boolean
  /** Read the response on the way: always if needed (usage stripping, no stream), else by `observeShare`. */
  readonly observe: boolean
  /** The gateway requested the usage record, and the client did not. */
  readonly hideUsage: boolean
  /** Interval of SSE comments to the client while the engine sends nothing; 0: none. */
  readonly heartbeatMs: number
  /** Time that the client may read nothing; 0: no limit. */
  readonly writeMs: number
  /** Pools that serve the model, in the configured order. */
  readonly routes: readonly PoolRoute[]
  /** Order in which regions are tried. null: by predicted time. */
  readonly regionPreference: RegionPreference | null
  /** Version of the configuration that has these routes. */
  readonly configVersion: number
  /** The only engine that can serve the request (stateful calls); null: any. */
  readonly pinned: { readonly cluster: string; readonly engine: string } | null
  /** Stages before `forward`, ms. */
  readonly stages: StageTimes
  /** Further headers for the client, flat: CORS, the limits of its key, and what an edge may send. */
  readonly clientHeaders: readonly string[]
  /** Replaced when an answer of the gateway's own has begun: the relay of the engine's answer then has no socket. */
  scope: RequestScope
  /** Where requests that wait for room are known. null: requests do not wait. */
  readonly waitingRequests: WaitingRequests | null
  /** Aborted when the client disconnects, as far as the runtime reports it. */
  signal: AbortSignalLike
  /** Watches waits before an engine gets the request. null: it is no stream, or its pools have no such waits. */
  longWait: LongWait | null
  /** An engine stores the answer for later requests. null: it does not. */
  readonly storage: ResponseStorage | null
  /** Send the stages to the client in a last SSE comment, if the stream is observed. */
  readonly lastComment: boolean
  /** Filled in while the request runs: placement, attempts, stages, end. */
  readonly record: OpenRecord
  /** null: nothing waits for the end. */
  readonly observer: ExchangeObserver | null
}

/**
 * Receives what becomes known of exchanges, and their ends: the only way from here to the caller of `forward`. One
 * observer serves all exchanges, so that a request has no callbacks of its own. It is called, because a stream ends
 * long after `forward` has returned its response, and a promise of the end would cost each request one.
 */
export interface ExchangeObserver {
  /** Another gateway has answered, with these headers. */
  gatewayAnswered(route: PoolRoute, headers: readonly string[]): void
  /** A booking was released, in a pool that counts costs. */
  bookingReleased(exchange: Exchange, route: PoolRoute, key: string): void
  /** `record` is complete: after the last byte, or before `forward` throws. Called exactly once for each exchange. */
  ended(exchange: Exchange): void
}

/** Fields of an exchange that asks for nothing but the engine's answer. */
export const plainExchange = {
  hideUsage: false,
  expectsJson: false,
  requestedModel: null,
  writeMs: 0,
  regionPreference: null,
  waitingRequests: null,
  longWait: null,
  storage: null,
  lastComment: false,
  observer: null,
} as const satisfies Partial<Exchange>

type ExchangeEnd = Pick<RequestRecord, 'status' | 'result' | 'failedAttempts' | 'stages' | 'usage'>

/** Completes the record of an exchange and reports the end. */
export function endExchange(
  exchange: Exchange,
  { status, result, failedAttempts, stages, usage }: ExchangeEnd,
  now: number,
): void {
  const { record } = exchange
  record.status = status
  record.result = result
  record.failedAttempts = failedAttempts
  record.stages = stages
  record.usage = usage
  record.durationMs = Math.max(0, now - exchange.receivedAt)
  exchange.observer?.ended(exchange)
}
