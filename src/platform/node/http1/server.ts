/**
 * Server for plain HTTP/1.1 requests to engines: it calls their handlers without objects of node:http or the web.
 * A connection with any other request is handed to node:http. See README.md.
 */
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { isInferencePath } from '../../../api/endpoints.ts'
import type { Gateway } from '../../../gateway.ts'
import type { Log, RequestScope } from '../../../ports.ts'
import type { HttpErrorReason } from '../inbound/http-errors.ts'
import { Http1ServerRequest } from './server-request.ts'
import { BODILESS } from '../../../origin/relay/pull-answer.ts'
import { type ResponseWriter, SocketResponseWriter, type ResponseConnection } from './response-writer.ts'
import { Deadline } from '../deadline.ts'
import { PLAIN_START, parseRequestHead, type Http1RequestHead } from './message-head.ts'

/** Pieces that are read before the head is written: a body that ends within them gets a content-length. */
const PIECES_AT_ONCE = 3

/** Writes a web Response. A body that fails cuts the connection, so that the client does not take it for complete. */
export async function writeResponse(response: Response, line: ResponseWriter): Promise<void> {
  const headers: string[] = []
  response.headers.forEach((value, name) => headers.push(name, value))
  if (response.body === null) {
    if (!BODILESS.has(response.status)) headers.push('content-length', '0')
    line.head(response.status, headers, true)
    return line.end()
  }
  const reader = response.body.getReader()
  const { pieces, next } = await atOnce(reader)
  if (next === null && !response.headers.has('content-length'))
    headers.push('content-length', String(pieces.reduce((size, { length }) => size + length, 0)))
  line.head(response.status, headers, false)
  for (const piece of pieces) line.write(piece, false)
  if (next === null) return line.end()
  line.flush()
  await pipeBody(reader, next, line).then(
    () => line.end(),
    () => line.destroy(),
  )
}

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Reading = ReturnType<Reader['read']>

/** Pieces that need no waiting. `next`: the read that is pending; null: the body has ended. */
async function atOnce(reader: Reader): Promise<{ readonly pieces: Uint8Array[]; readonly next: Reading | null }> {
  const pieces: Uint8Array[] = []
  while (pieces.length < PIECES_AT_ONCE) {
    const next = reader.read()
    const read = await Promise.race([next, nextTurn()])
    if (read === null) return { pieces, next }
    if (read.done) return { pieces, next: null }
    pieces.push(read.value)
  }
  return { pieces, next: reader.read() }
}

const nextTurn = (): Promise<null> => new Promise((resolve) => setImmediate(() => resolve(null)))

async function pipeBody(reader: Reader, first: Reading, line: ResponseWriter): Promise<void> {
  for (let next = first; ; next = reader.read()) {
    const { done, value } = await next
    if (done) return
    if (line.gone) return void reader.cancel().catch(() => undefined)
    if (!line.write(value, false)) await new Promise<void>((resolve) => line.drained(resolve))
  }
}

export interface Http1ServerParts {
  readonly gateway: Pick<Gateway, 'fetch'>
  readonly timeouts: HttpTimeouts
  /** false: the connection was refused and is not served. Absent: all are served. */
  readonly admits?: (socket: Socket) => boolean
  readonly scopeOf: (line: SocketResponseWriter, socket: Socket) => RequestScope
  /** Answers a request that cannot be served, and ends the connection. */
  readonly refuse: (reason: HttpErrorReason, socket: Socket) => void
  readonly log: Log
}

export class Http1Server {
  readonly #parts: Http1ServerParts
  readonly #connections = new Set<Http1Connection>()

  constructor(parts: Http1ServerParts) {
    this.#parts = parts
  }

  /** Reads the connections of `server` first, and hands those that are not plain back to it. */
  takeConnections(server: Server): void {
    const [toHttp] = server.listeners('connection')
    server.off('connection', toHttp as () => void)
    server.on('connection', (socket) => {
      if (this.#parts.admits?.(socket) !== false) this.#open(socket, (left) => toHttp!.call(server, left))
    })
  }

  /** Closes connections: those with a request after its response, the others now. */
  endSoon(): void {
    for (const connection of this.#connections) connection.endSoon()
  }

  destroyAll(): void {
    for (const connection of this.#connections) connection.destroy()
  }

  #open(socket: Socket, toHttp: (socket: Socket) => void): void {
    const { timeouts, refuse } = this.#parts
    const connection = new Http1Connection({
      socket,
      timeouts,
      serves: isInferencePath,
      serve: (request, line) => this.#serve(request, line),
      handOver: () => {
        this.#connections.delete(connection)
        toHttp(socket)
      },
      refuse: (reason) => refuse(reason, socket),
      closed: () => this.#connections.delete(connection),
    })
    this.#connections.add(connection)
  }

  #serve(request: Http1ServerRequest, line: SocketResponseWriter): void {
    const { gateway, scopeOf, log } = this.#parts
    gateway
      .fetch(request, scopeOf(line, line.socket))
      .then((response) => (response === RESPONSE_ALREADY_SENT ? undefined : answer(response, line)))
      .catch((error: unknown) => {
        log.error('answer_failed', { error })
        line.destroy()
      })
  }
}

/** Writes a response that was not written to the client's socket as it arrived. */
async function answer(response: Response, line: SocketResponseWriter): Promise<void> {
  // Another response has begun: a cut, so that the client does not take it for complete.
  if (line.begun) line.destroy()
  else await writeResponse(response, line)
}

/*
 * One client connection: a request, its response, the next request. The first request that is not plain goes to
 * node:http with the whole connection, before any of its bytes are consumed.
 */

export interface HttpTimeouts {
  /** For a head: from the start of the connection, or from its first byte on a connection that was idle. */
  readonly headMs: number
  /** For a whole request. */
  readonly requestMs: number
  /** For the next request on a connection. */
  readonly idleMs: number
}

interface Http1ConnectionParts {
  readonly socket: Socket
  readonly timeouts: HttpTimeouts
  /** Whether requests to this path are served here. */
  readonly serves: (url: string) => boolean
  readonly serve: (request: Http1ServerRequest, line: SocketResponseWriter) => void
  /** Receives a connection that is not plain. Bytes that were read are back in the socket. */
  readonly handOver: () => void
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

export class Http1Connection implements ResponseConnection {
  readonly #parts: Http1ConnectionParts
  /** Bytes that were read and not consumed: part of a head, or requests sent ahead. */
  #ahead: Buffer | null = null
  #pieces = 0
  #request: Http1ServerRequest | null = null
  #line: SocketResponseWriter | null = null
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
  readonly #deadline = new Deadline(() => this.#late())

  constructor(parts: Http1ConnectionParts) {
    this.#parts = parts
    const { socket, timeouts } = parts
    socket
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('close', this.#onClose)
      .on('error', onError)
      .on('drain', this.#onDrain)
    this.#deadline.set(timeouts.headMs)
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
    // The response was complete before the request.
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

  /** Requests sent ahead have to be served before more is read. */
  get #isAheadFull(): boolean {
    return this.#ahead !== null && this.#ahead.length > AHEAD_BYTES
  }

  /** The end of a malformed body is unknown: the connection closes after the response. */
  #malformed(): void {
    this.#last = true
    this.#deadline.cancel()
    if (this.#line === null) this.#end(Infinity)
  }

  readonly #onEnd = (): void => {
    // A half-closed connection counts as a client disconnect.
    this.#parts.socket.destroy()
  }

  readonly #onClose = (): void => {
    this.#deadline.cancel()
    this.#parts.closed()
    this.#request?.clientGone()
    this.#line?.drain()
  }

  readonly #onDrain = (): void => this.#line?.drain()

  #takeHead(bytes: Buffer): void {
    const all = this.#ahead === null ? bytes : Buffer.concat([this.#ahead, bytes])
    this.#ahead = null
    const end = all.indexOf(HEAD_END, 0, 'latin1')
    if (end < 0) {
      const shown = Math.min(all.length, START.length)
      // Without the check for bare line feeds, a complete but malformed head would wait for its timeout.
      const may =
        all.length <= HEAD_BYTES &&
        !BARE_LF.test(all.toString('latin1')) &&
        ++this.#pieces < HEAD_PIECES &&
        all.compare(START, 0, shown, 0, shown) === 0
      if (!may) return this.#leave(all)
      if (this.#pieces === 1) this.#deadline.set(this.#parts.timeouts.headMs)
      this.#ahead = all
      return
    }
    this.#pieces = 0
    const head = end > HEAD_BYTES ? null : parseRequestHead(all.toString('latin1', 0, end))
    const bodyAt = end + HEAD_END.length
    // Pipelined requests go to node:http.
    if (head === null || (head.length !== null && all.length - bodyAt > head.length) || !this.#parts.serves(head.url))
      return this.#leave(all)
    this.#begin(head, all.length === bodyAt ? null : all.subarray(bodyAt))
  }

  #begin(head: Http1RequestHead, body: Buffer | null): void {
    const { timeouts, serve } = this.#parts
    this.#fresh = false
    const request = new Http1ServerRequest(head)
    const line = new SocketResponseWriter(this)
    this.#request = request
    this.#line = line
    const taken = body === null ? 0 : request.take(body)
    if (request.malformed) this.#last = true
    // Behind the last chunk another request begins.
    else if (body !== null && taken < body.length) this.#keepAhead(body.subarray(taken))
    if (request.missing > 0 && !request.malformed) this.#deadline.set(timeouts.requestMs)
    else this.#deadline.cancel()
    serve(request, line)
  }

  keepsAlive(): boolean {
    const request = this.#request!
    // The length of a chunked body is unknown before its end.
    return !this.#last && !request.close && (request.isChunked || request.missing <= SKIP_BYTES)
  }

  completed(lasts: boolean): void {
    const request = this.#request!
    this.#line = null
    request.discard()
    if (!lasts) this.#end(request.missing)
    else if (request.missing === 0) this.#next()
  }

  /** Response and request are complete. */
  #next(): void {
    this.#request = null
    if (this.#last) return this.#end(0)
    this.#deadline.set(this.#parts.timeouts.idleMs + GRACE_MS)
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
    this.#deadline.set(LINGER_MS)
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead = this.#ahead === null ? bytes : Buffer.concat([this.#ahead, bytes])
    if (this.#isAheadFull) this.#parts.socket.pause()
  }

  #leave(read: Buffer): void {
    const { socket, handOver } = this.#parts
    // From here on node:http pauses and resumes.
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
    handOver()
    socket.resume()
  }

  #late(): void {
    const { socket, refuse } = this.#parts
    const answering = this.#request !== null && (this.#line === null || this.#line.begun)
    if (this.#ending || this.#idle || answering) return void socket.destroy()
    refuse('request_timeout')
    this.#linger()
    this.#request?.clientGone()
  }
}

/** Errors are handled by the `close` that follows them. */
const onError = (): void => {}
