/** What a fake engine answers: see `FakeEngine`. */
import type { EngineRequest } from './engine-request.ts'

/** A part of a body. A number is a pause in milliseconds; a promise is a pause until it resolves. */
export type Piece = string | Uint8Array | number | Promise<unknown>

export interface FakeAnswer {
  /** Default: 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Text, bytes, or a value that is sent as JSON. */
  readonly body?: unknown
  /** A body in several writes, instead of `body`. Chunked unless the headers give a length. */
  readonly pieces?: Iterable<Piece> | AsyncIterable<Piece>
  /** Bytes (Latin-1) in place of status and headers; `pieces` may follow, as they are. */
  readonly raw?: string | Uint8Array
  /** The body has no framing and ends with the connection. */
  readonly version?: '1.0'
  /**
   * What follows the last byte. `keep` (default) keeps the connection, `close` ends it, as its head announces. The others leave the body
   * without its end: `truncate` ends the connection, `reset` resets it, `hang` leaves it open and silent.
   */
  readonly end?: 'keep' | 'close' | 'truncate' | 'reset' | 'hang'
}

/** A function that returns nothing has written to `request.socket` itself. */
export type Route = FakeAnswer | ((request: EngineRequest) => FakeAnswer | void | Promise<FakeAnswer | void>)

/** `METHOD /path` (without the query), `METHOD *` or `*`. Anything else is answered with 200 and `{}`. */
export type Routes = Readonly<Record<string, Route>>

/** Accepts a request and sends nothing. */
export const SILENCE: FakeAnswer = { raw: '', end: 'hang' }
