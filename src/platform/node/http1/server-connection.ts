/**
 * One client's connection, read here for as long as it speaks plainly: a request, its answer, the next request. The
 * first thing that is not plain goes to node:http with the whole connection, before anything of it was taken.
 */
import type { Socket } from 'node:net'
import { Deadline } from '../deadline.ts'
import type { HttpErrorReason } from '../inbound/http-errors.ts'
import { PLAIN_START, plainHead, type Http1RequestHead } from './request-head.ts'
import { type LineOwner, SocketResponseWriter } from './response-writer.ts'
import { Http1ServerRequest } from './server-request.ts'

export interface HttpTimeouts {
  /** A head must be here this soon: after the connection, or after its first byte on one that idled. */
  readonly headMs: number
  /** A whole request must. */
  readonly requestMs: number
  /** A connection may wait this long for its next request. */
  readonly idleMs: number
}

export interface PlainConnectionParts {
  readonly socket: Socket
  readonly patience: HttpTimeouts
  /** Is this a path that is served here? */
  readonly takes: (url: string) => boolean
  readonly serve: (request: Http1ServerRequest, line: SocketResponseWriter) => void
  /** Takes a connection that is not plain; what was read of it is in the socket again. */
  readonly leave: () => void
  /** Answers a request that cannot be served. */
  readonly refuse: (reason: HttpErrorReason) => void
  readonly closed: () => void
}

const HEAD_END = '\r\n\r\n'
const BARE_LF = /(?<!\r)\n/
const START = Buffer.from(PLAIN_START)
/** A plain head is no longer. */
const HEAD_BYTES = 16 * 1024
/** Nor does it come in more pieces. */
const HEAD_PIECES = 8
/** What a client may send ahead of its answer before it is made to wait. */
const AHEAD_BYTES = 64 * 1024
/** The rest of a body nobody wanted is read and let go up to this size; beyond it the connection ends. */
const SKIP_BYTES = 256 * 1024
/**
 * Of a chunked body, what one connection may send before others get their turn: some 3 ms of decoding. libuv reads up to
 * 2 MiB at once.
 */
const TURN_BYTES = 256 * 1024
/** How long a client may still send what nobody reads: closed at once, it would lose its answer to a reset. */
const LINGER_MS = 2_000
/** A client that asks just before its time is up must not meet a closing door. */
const GRACE_MS = 1_000
const NOTHING = Buffer.alloc(0)

export class Http1Connection implements LineOwner {
  readonly #parts: PlainConnectionParts
  /** Read and not taken yet: part of a head, or what was sent ahead. */
  #ahead: Buffer | null = null
  #pieces = 0
  #request: Http1ServerRequest | null = null
  #line: SocketResponseWriter | null = null
  /** It ends with the answer under way. */
  #last = false
  /** Nothing was asked on it yet. */
  #fresh = true
  /** Nothing it says counts any more. */
  #ending = false
  /** Bytes of chunked bodies read in this turn of the event loop. */
  #turnBytes = 0
  /** Reading stopped because of them. */
  #yielded = false
  readonly #deadline = new Deadline(() => this.#late())

  constructor(parts: PlainConnectionParts) {
    this.#parts = parts
    const { socket, patience } = parts
    socket
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('close', this.#onClose)
      .on('error', onError)
      .on('drain', this.#onDrain)
    this.#deadline.set(patience.headMs)
  }

  get socket(): Socket {
    return this.#parts.socket
  }

  get idleS(): number {
    return Math.floor(this.#parts.patience.idleMs / 1000)
  }

  /** Neither a request nor a part of one is here. */
  get #idle(): boolean {
    return this.#request === null && this.#ahead === null
  }

  /** It serves no further request: closed at once where it is idle, but the first one of a client that has just come is answered. */
  endSoon(): void {
    this.#last = true
    if (!this.#idle) return
    if (this.#fresh) this.#deadline.set(GRACE_MS)
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
    if (this.#line === null && request.skipped > SKIP_BYTES) return this.#end(Infinity)
    if (taken === 0 || request.missing > 0) return
    this.#deadline.cancel()
    // It was answered before it was whole.
    if (this.#line === null) this.#next()
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

  /** What was sent ahead has to be served before more is read. */
  get #isAheadFull(): boolean {
    return this.#ahead !== null && this.#ahead.length > AHEAD_BYTES
  }

  /** Nothing behind a malformed body can be read: the connection ends with the answer. */
  #malformed(): void {
    this.#last = true
    this.#deadline.cancel()
    if (this.#line === null) this.#end(Infinity)
  }

  readonly #onEnd = (): void => {
    // A client that says no more has left, whatever it may still hear.
    this.#parts.socket.destroy()
  }

  readonly #onClose = (): void => {
    this.#deadline.cancel()
    this.#parts.closed()
    this.#request?.leave()
    this.#line?.drain()
  }

  readonly #onDrain = (): void => this.#line?.drain()

  #takeHead(bytes: Buffer): void {
    const all = this.#ahead === null ? bytes : Buffer.concat([this.#ahead, bytes])
    this.#ahead = null
    const end = all.indexOf(HEAD_END, 0, 'latin1')
    if (end < 0) {
      const shown = Math.min(all.length, START.length)
      // Without the check for bare line feeds a complete but malformed head would wait for its end until it is late.
      const may =
        all.length <= HEAD_BYTES &&
        !BARE_LF.test(all.toString('latin1')) &&
        ++this.#pieces < HEAD_PIECES &&
        all.compare(START, 0, shown, 0, shown) === 0
      if (!may) return this.#leave(all)
      if (this.#pieces === 1) this.#deadline.set(this.#parts.patience.headMs)
      this.#ahead = all
      return
    }
    this.#pieces = 0
    const head = end > HEAD_BYTES ? null : plainHead(all.toString('latin1', 0, end))
    const bodyAt = end + HEAD_END.length
    // Who sends more than a request at a time wants them answered so.
    if (head === null || (head.length !== null && all.length - bodyAt > head.length) || !this.#parts.takes(head.url))
      return this.#leave(all)
    this.#begin(head, all.length === bodyAt ? null : all.subarray(bodyAt))
  }

  #begin(head: Http1RequestHead, body: Buffer | null): void {
    const { patience, serve } = this.#parts
    this.#fresh = false
    const request = new Http1ServerRequest(head)
    const line = new SocketResponseWriter(this)
    this.#request = request
    this.#line = line
    const taken = body === null ? 0 : request.take(body)
    if (request.malformed) this.#last = true
    // Only the last chunk tells where the body ends.
    else if (body !== null && taken < body.length) this.#keepAhead(body.subarray(taken))
    if (request.missing > 0 && !request.malformed) this.#deadline.set(patience.requestMs)
    else this.#deadline.cancel()
    serve(request, line)
  }

  lasts(): boolean {
    const request = this.#request!
    // How much of a body in chunks is to come shows only as it comes.
    return !this.#last && !request.close && (request.isChunked || request.missing <= SKIP_BYTES)
  }

  answered(lasts: boolean): void {
    const request = this.#request!
    this.#line = null
    request.letGo()
    if (!lasts) this.#end(request.missing)
    else if (request.missing === 0) this.#next()
  }

  /** The answer has gone, and nothing of its request is still to come. */
  #next(): void {
    this.#request = null
    if (this.#last) return this.#end(0)
    this.#deadline.set(this.#parts.patience.idleMs + GRACE_MS)
    if (this.#ahead === null) return
    this.#parts.socket.resume()
    // Not in the tick of the answer: many that were sent ahead would nest.
    setImmediate(() => {
      if (this.#request === null && this.#ahead !== null) this.#onData(NOTHING)
    })
  }

  /** `unread`: bytes the client may still send. */
  #end(unread: number): void {
    const { socket } = this.#parts
    const isRead = unread === 0 && this.#ahead === null
    this.#request = null
    this.#ahead = null
    if (isRead) socket.destroySoon()
    else this.#linger()
  }

  /** What is written leaves; what comes is let go. */
  #linger(): void {
    const { socket } = this.#parts
    this.#ending = true
    socket.end()
    socket.resume()
    this.#deadline.set(LINGER_MS)
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead = this.#ahead === null ? bytes : Buffer.concat([this.#ahead, bytes])
    if (this.#isAheadFull) this.#parts.socket.pause()
  }

  #leave(read: Buffer): void {
    const { socket, leave } = this.#parts
    // From here on node:http says when it reads.
    this.#yielded = false
    this.#deadline.cancel()
    socket
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('close', this.#onClose)
      .off('error', onError)
      .off('drain', this.#onDrain)
    socket.pause()
    socket.unshift(read)
    leave()
    socket.resume()
  }

  #late(): void {
    const { socket, refuse } = this.#parts
    const answering = this.#request !== null && (this.#line === null || this.#line.begun)
    if (this.#ending || this.#idle || answering) return void socket.destroy()
    refuse('request_timeout')
    this.#linger()
    this.#request?.leave()
  }
}

/** What an error means is said by the close that follows. */
const onError = (): void => {}
