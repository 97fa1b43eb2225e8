/**
 * One client connection: a request, its response, the next request. The first request that is not plain goes to
 * node:http with the whole connection, before any of its bytes are consumed.
 */
import type { Socket } from 'node:net'
import { WheelTimer } from '../wheel-timer.ts'
import type { HttpErrorReason } from '../inbound/http-errors.ts'
import { type Http1RequestHead, parseRequestHead, PLAIN_START } from './request-head.ts'
import { type ResponseConnection, SocketResponseWriter } from './response-writer.ts'
import { ServerRequest } from './server-request.ts'

export interface HttpTimeouts {
  /** For a head: from the start of the connection, or from its first byte on a connection that was idle. */
  readonly headMs: number
  /** For a whole request. */
  readonly requestMs: number
  /** For the next request on a connection. */
  readonly idleMs: number
}

interface ServerConnectionParts {
  readonly socket: Socket
  readonly timeouts: HttpTimeouts
  /** Whether requests to this path are served here. */
  readonly serves: (url: string) => boolean
  readonly serve: (request: ServerRequest, writer: SocketResponseWriter) => void
  /** Receives a connection that is not plain. Bytes that were read are back in the socket. */
  readonly leaveToNodeHttp: () => void
  /** Writes the error response to a request that cannot be served. */
  readonly refuse: (reason: HttpErrorReason) => void
  readonly closed: () => void
}

const HEAD_END = '\r\n\r\n'

const BARE_LF = /(?<!\r)\n/

const START = Buffer.from(PLAIN_START)

/** Longest plain head. */
const HEAD_BYTES = 16 * 1024

/** Most reads of a plain head. */
const HEAD_PIECES = 8

/** Bytes that a client may send ahead of a response before reading stops. */
const AHEAD_BYTES = 64 * 1024

/** The rest of an unwanted body is read and discarded up to this size. A longer one closes the connection. */
const SKIP_BYTES = 256 * 1024

/**
 * Bytes of chunked bodies that one connection may send in one turn of the event loop: about 3 ms of parsing. libuv
 * reads up to 2 MiB at once.
 */
const TURN_BYTES = 256 * 1024

/**
 * How long a closing connection accepts unread bytes. Closed at once, the reset would destroy the response on its way.
 */
const LINGER_MS = 2_000

/** Added to the announced idle time, so that a request sent just before its end is served. */
const GRACE_MS = 1_000

const NOTHING = Buffer.alloc(0)

export class ServerConnection implements ResponseConnection {
  readonly #parts: ServerConnectionParts
  /** Bytes that were read and not consumed: part of a head, or requests sent ahead. */
  #ahead: Buffer | null = null
  #pieces = 0
  #request: ServerRequest | null = null
  #writer: SocketResponseWriter | null = null
  /** The connection closes after this response. */
  #last = false
  /** No request has arrived yet. */
  #fresh = true
  /** Bytes that arrive are discarded. */
  #ending = false
  /** Bytes of chunked bodies read in this turn of the event loop. */
  #turnBytes = 0
  /** Reading stopped because of `TURN_BYTES`. */
  #yielded = false
  readonly #timer = new WheelTimer(() => this.#onTimeout())

  constructor(parts: ServerConnectionParts) {
    this.#parts = parts
    const { socket, timeouts } = parts
    socket
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('close', this.#onClose)
      .on('error', onError)
      .on('drain', this.#onDrain)
    this.#timer.set(timeouts.headMs)
  }

  get socket(): Socket {
    return this.#parts.socket
  }

  get idleS(): number {
    return Math.floor(this.#parts.timeouts.idleMs / 1000)
  }

  /** Neither a request nor a part of one has arrived. */
  get #idle(): boolean {
    return this.#request === null && this.#ahead === null
  }

  /** Serves no further request. An idle connection closes at once, but a new client's first request is served. */
  endSoon(): void {
    this.#last = true
    if (!this.#idle) return
    if (this.#fresh) this.#timer.set(GRACE_MS)
    else this.#parts.socket.destroySoon()
  }

  destroy(): void {
    this.#parts.socket.destroy()
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#ending) return
    const request = this.#request
    if (request === null) return this.#takeHead(bytes)
    if (request.malformed) return
    if (request.isChunked) this.#countTurn(bytes.length)
    const taken = request.take(bytes)
    if (request.malformed) return this.#malformed()
    if (taken < bytes.length) this.#keepAhead(taken === 0 ? bytes : bytes.subarray(taken))
    if (this.#writer === null && request.skipped > SKIP_BYTES) return this.#end(Infinity)
    if (taken === 0 || request.missing > 0) return
    this.#timer.cancel()
    // The response was complete before the request.
    if (this.#writer === null) this.#next()
  }

  #countTurn(bytes: number): void {
    if (this.#turnBytes === 0) setImmediate(this.#onTurn)
    this.#turnBytes += bytes
    if (this.#turnBytes < TURN_BYTES) return
    this.#yielded = true
    this.#parts.socket.pause()
  }

  readonly #onTurn = (): void => {
    const yielded = this.#yielded
    this.#turnBytes = 0
    this.#yielded = false
    if (yielded && !this.#isAheadFull) this.#parts.socket.resume()
  }

  /** Requests sent ahead have to be served before more is read. */
  get #isAheadFull(): boolean {
    return this.#ahead !== null && this.#ahead.length > AHEAD_BYTES
  }

  /** The end of a malformed body is unknown: the connection closes after the response. */
  #malformed(): void {
    this.#last = true
    this.#timer.cancel()
    if (this.#writer === null) this.#end(Infinity)
  }

  readonly #onEnd = (): void => {
    // A half-closed connection counts as a client disconnect.
    this.#parts.socket.destroy()
  }

  readonly #onClose = (): void => {
    this.#timer.cancel()
    this.#parts.closed()
    this.#request?.clientGone()
    this.#writer?.drain()
  }

  readonly #onDrain = (): void => this.#writer?.drain()

  #takeHead(bytes: Buffer): void {
    const all = this.#ahead === null ? bytes : Buffer.concat([this.#ahead, bytes])
    this.#ahead = null
    const end = all.indexOf(HEAD_END, 0, 'latin1')
    if (end < 0) {
      const shown = Math.min(all.length, START.length)
      // Without the check for bare line feeds, a complete but malformed head would wait for its timeout.
      const mayBePlain =
        all.length <= HEAD_BYTES &&
        !BARE_LF.test(all.toString('latin1')) &&
        ++this.#pieces < HEAD_PIECES &&
        all.compare(START, 0, shown, 0, shown) === 0
      if (!mayBePlain) return this.#leaveToNodeHttp(all)
      if (this.#pieces === 1) this.#timer.set(this.#parts.timeouts.headMs)
      this.#ahead = all
      return
    }
    this.#pieces = 0
    const head = end > HEAD_BYTES ? null : parseRequestHead(all.toString('latin1', 0, end))
    const bodyAt = end + HEAD_END.length
    // Pipelined requests go to node:http.
    if (head === null || (head.length !== null && all.length - bodyAt > head.length) || !this.#parts.serves(head.url))
      return this.#leaveToNodeHttp(all)
    this.#begin(head, all.length === bodyAt ? null : all.subarray(bodyAt))
  }

  #begin(head: Http1RequestHead, body: Buffer | null): void {
    const { timeouts, serve } = this.#parts
    this.#fresh = false
    const request = new ServerRequest(head)
    const writer = new SocketResponseWriter(this)
    this.#request = request
    this.#writer = writer
    const taken = body === null ? 0 : request.take(body)
    if (request.malformed) this.#last = true
    // Behind the last chunk another request begins.
    else if (body !== null && taken < body.length) this.#keepAhead(body.subarray(taken))
    if (request.missing > 0 && !request.malformed) this.#timer.set(timeouts.requestMs)
    else this.#timer.cancel()
    serve(request, writer)
  }

  keepsAlive(): boolean {
    const request = this.#request!
    // The length of a chunked body is unknown before its end.
    return !this.#last && !request.close && (request.isChunked || request.missing <= SKIP_BYTES)
  }

  completed(isKeptAlive: boolean): void {
    const request = this.#request!
    this.#writer = null
    request.discard()
    if (!isKeptAlive) this.#end(request.missing)
    else if (request.missing === 0) this.#next()
  }

  /** Response and request are complete. */
  #next(): void {
    this.#request = null
    if (this.#last) return this.#end(0)
    this.#timer.set(this.#parts.timeouts.idleMs + GRACE_MS)
    if (this.#ahead === null) return
    this.#parts.socket.resume()
    // In another tick: many requests sent ahead would nest.
    setImmediate(() => {
      if (this.#request === null && this.#ahead !== null) this.#onData(NOTHING)
    })
  }

  /** `unread`: bytes that the client may still send. */
  #end(unread: number): void {
    const { socket } = this.#parts
    const isRead = unread === 0 && this.#ahead === null
    this.#request = null
    this.#ahead = null
    if (isRead) socket.destroySoon()
    else this.#linger()
  }

  /** Sends what is written and discards what arrives, for `LINGER_MS`. */
  #linger(): void {
    const { socket } = this.#parts
    this.#ending = true
    socket.end()
    socket.resume()
    this.#timer.set(LINGER_MS)
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead = this.#ahead === null ? bytes : Buffer.concat([this.#ahead, bytes])
    if (this.#isAheadFull) this.#parts.socket.pause()
  }

  #leaveToNodeHttp(read: Buffer): void {
    const { socket, leaveToNodeHttp } = this.#parts
    // From here on node:http pauses and resumes.
    this.#yielded = false
    this.#timer.cancel()
    socket
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('close', this.#onClose)
      .off('error', onError)
      .off('drain', this.#onDrain)
    socket.pause()
    socket.unshift(read)
    leaveToNodeHttp()
    socket.resume()
  }

  #onTimeout(): void {
    const { socket, refuse } = this.#parts
    const answering = this.#request !== null && (this.#writer === null || this.#writer.begun)
    if (this.#ending || this.#idle || answering) return void socket.destroy()
    refuse('request_timeout')
    this.#linger()
    this.#request?.clientGone()
  }
}

/** Errors are handled by the `close` that follows them. */
const onError = (): void => {}
