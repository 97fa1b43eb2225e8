/** Port of the HTTP client for engines. */
import type { AttemptFailure } from '../core/contract/outcome.ts'
import type { AbortSignalLike } from './abort-signal.ts'
import type { EngineError } from '../protocols/engine-error.ts'
import type { Protocol } from '../protocols/protocol.ts'
import type { EngineTarget, OriginTarget } from './engine-target.ts'
import type { RelayOptions } from './relay.ts'
import type { Timers } from './timers.ts'

/** A request to an engine or to a service beside it. */
export interface OriginRequest {
  readonly target: OriginTarget
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Path and query for the engine. */
  readonly path: string
  /** Flat name, value; lower-case; free of hop-by-hop headers and client credentials; without content-length. */
  readonly headers: readonly string[]
  /** Parts of the body, sent unchanged. */
  readonly body: readonly Uint8Array[] | null
  readonly connectMs: number
  /** Limit until the first byte of the body that is output. */
  readonly firstByteMs: number
  /** Wire protocol of the answer: what comes before its output is held back. null: any byte is output. */
  readonly protocol: Protocol | null
  /** An answer that is no stream is JSON. false: any answer is good. */
  readonly expectsJson: boolean
  /** The request asks for a stream, so an answer whose type does not say otherwise is one. */
  readonly expectsStream: boolean
  /** Aborted when the client disconnects or the gateway ends the attempt. */
  readonly signal: AbortSignalLike
  readonly timers: Timers
}

/** A request to an engine of a pool. */
export interface EngineRequest extends OriginRequest {
  readonly target: EngineTarget
}

/** A placed request that a proxy sends itself: to `target`, or to one of the others if it cannot connect. */
export interface DeliveredRequest extends EngineRequest {
  /** Engines that may serve the same request, with the same headers; the best first. */
  readonly fallbacks: readonly EngineTarget[]
}

/**
 * A connection that breaks within this time, ms, before any byte of a response was most likely idle, and the engine had
 * closed it. Later the engine may have begun the request, so it is not sent there again.
 */
export const STALE_CONNECTION_MS = 500

/** A failed request to an engine. The message may contain addresses: log it, never send it to clients. */
export class OriginError extends Error {
  readonly failure: AttemptFailure

  constructor(failure: AttemptFailure, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'OriginError'
    this.failure = failure
  }
}

/**
 * HTTP client for engines. A response body is opaque: the platform relays it in the cheapest way it has (raw sockets on
 * Node, native streams on Workers), with an observer of the bytes.
 */
export interface Origin {
  /** Resolves with the response head. Rejects with an OriginError, or with the signal's reason. */
  send(request: OriginRequest): Promise<OriginAnswer>
  /**
   * `send` and `firstByte` in one, called in the tick in which the bytes arrived, as a platform with sockets can do
   * without a copy and a promise for every step. Absent: `send`.
   */
  begin?(request: OriginRequest, handler: ResponseHandler): void
}

/** Callbacks until the first byte: `head`, then `firstByte`; or `failed`, once, at any time before `firstByte`. */
export interface ResponseHandler {
  /**
   * Time to wait for the first byte of a stream after its head, before `firstByte` is called early; 0: `firstByteMs`.
   */
  readonly patienceMs: number
  /** false: the caller reads the answer itself; no more callbacks. */
  head(answer: OriginAnswer): boolean
  /** The first byte is here. `early`: `patienceMs` have passed without it. */
  firstByte(answer: OriginAnswer, early: boolean): void
  /** With an OriginError, or the signal's reason. */
  failed(error: unknown): void
}

export interface OriginAnswer {
  readonly status: number
  /** Flat name, value; lower-case; hop-by-hop, content-length and transfer-encoding removed. */
  readonly headers: readonly string[]
  /** The body is a stream of server-sent events, by its content-type or because the request asked for one. */
  readonly sse: boolean
  /** Address (`host:port`) that answered, if it may be another one than the target's. Absent: the target. */
  readonly served?: string
  /** The request is sent, and its memory is not read any more. Absent: unknown. */
  readonly written?: boolean
  /**
   * Resolves when output or `bytes` of the body are here, or at its end. Rejects with an OriginError. Call it once.
   */
  firstByte(bytes?: number): Promise<void>
  /** The first bytes of the body, which `firstByte` read. They are not relayed yet. */
  firstBytes(): Uint8Array
  /** Error that the engine reported before any output, with a success status. Valid after `firstByte`. null: none. */
  fault(): EngineError | null
  /** Reads the whole body. Rejects with an OriginError beyond `limitBytes`. */
  read(limitBytes: number): Promise<Uint8Array>
  /** Relays head and body to the client. Call it after `firstByte` has resolved, or before with `heartbeatMs` set. */
  pass(options: RelayOptions): Response
  /** The relayed body for a reader in the gateway, which answers the client itself. In place of `pass`. */
  reader(options: RelayOptions): BodyReader
  /** Aborts the request. */
  discard(): void
}

/** A body that is read piece by piece. */
export interface BodyReader {
  /** One call at a time. null: the end. Rejects if the body ends early, behind its error event. */
  read(): Promise<Uint8Array | null>
  /** Ends the call to the engine. Has effect once. */
  cancel(): void
}
