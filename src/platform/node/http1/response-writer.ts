/** Writers of one response to a client's socket: head, bytes, end. `RequestScope.client` holds one on Node. */
import type { HttpBindings } from '@hono/node-server'
import { type ServerResponse, STATUS_CODES } from 'node:http'
import { limitWrite } from '../inbound/write-limit.ts'
import type { RelayScope } from '../../../ports/relay.ts'
import type { Socket } from 'node:net'
import { chunkOf, hasBytes, LAST_CHUNK } from './chunked.ts'
import { isFieldValue } from './head-fields.ts'

/**
 * Framing of a response body. A number: its length. `chunked`: the bytes written are chunk-framed already. `unframed`:
 * the writer frames them. `none`: there is no body, or the headers have its length.
 */
type ResponseFraming = number | 'chunked' | 'unframed' | 'none'

export interface ResponseWriter {
  /** The head is written, or will be with the next bytes. */
  readonly begun: boolean
  /** The client has disconnected. */
  readonly gone: boolean
  /** The client accepts chunked bodies (HTTP/1.1). */
  readonly takesChunks: boolean
  /** Memory given to the last write is still in use. */
  readonly holds: boolean
  /** Sets the head, which leaves with the first bytes. `headers`: flat name, value; the writer adds the framing. */
  head(status: number, headers: readonly string[], framing: ResponseFraming): void
  /** `last`: the end follows. false: the client has not taken all of it; see `drained`. */
  write(pieces: readonly Uint8Array[], last: boolean): boolean
  /** Sends what is written. */
  flush(): void
  /** The body is complete. */
  end(): void
  /** Closes the connection behind what is written, without the end of the body, so that it is truncated. */
  truncate(): void
  destroy(): void
  /** Calls `tell` once the socket has taken all that was written. */
  drained(callback: () => void): void
}

/** Connection of a response. */
export interface ResponseConnection {
  readonly socket: Socket
  /** Idle time announced to clients, seconds. */
  readonly idleS: number
  /** Whether it will serve another request; called when the head is written. */
  keepsAlive(): boolean
  /** Called once, when the response is complete. `keepsAlive`: as announced in the head. */
  completed(isKeptAlive: boolean): void
}

/** Less is copied: one write costs half of three that are corked. */
const COPIED_BYTES = 4096

export class SocketResponseWriter implements ResponseWriter {
  readonly #connection: ResponseConnection
  readonly takesChunks = true
  begun = false
  /** Head that leaves with the next bytes; null: written. */
  #head: string | null = null
  #chunks = false
  #keepsAlive = true
  #over = false
  #onDrain: (() => void) | null = null

  constructor(connection: ResponseConnection) {
    this.#connection = connection
  }

  get socket(): Socket {
    return this.#connection.socket
  }

  get gone(): boolean {
    return this.#connection.socket.destroyed
  }

  get holds(): boolean {
    return this.#connection.socket.writableLength > 0
  }

  /** Throws a TypeError on a value with a forbidden character. */
  head(status: number, headers: readonly string[], framing: ResponseFraming): void {
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`
    let dated = false
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!
      const value = headers[i + 1]!
      if (!isFieldValue(value)) throw new TypeError(`invalid character in header ${name}`)
      dated ||= name === 'date'
      text += `${name}: ${value}\r\n`
    }
    this.#chunks = framing === 'unframed'
    this.#keepsAlive = this.#connection.keepsAlive()
    if (typeof framing === 'number') text += `content-length: ${framing}\r\n`
    else if (framing !== 'none') text += 'transfer-encoding: chunked\r\n'
    if (!dated) text += `date: ${dateNow()}\r\n`
    text += this.#keepsAlive
      ? `connection: keep-alive\r\nkeep-alive: timeout=${this.#connection.idleS}\r\n\r\n`
      : 'connection: close\r\n\r\n'
    this.#head = text
    this.begun = true
  }

  write(pieces: readonly Uint8Array[]): boolean {
    if (this.#over || !hasBytes(pieces)) return true
    return this.#send(this.#chunks ? chunkOf(pieces) : pieces)
  }

  flush(): void {
    if (this.#head !== null) this.#send([])
  }

  end(): void {
    if (this.#over) return
    if (this.#chunks) this.#send([LAST_CHUNK])
    else this.flush()
    this.#over = true
    if (this.holds) limitWrite(this.#connection.socket)
    this.#connection.completed(this.#keepsAlive)
  }

  truncate(): void {
    if (this.#over) return
    this.flush()
    this.#over = true
    this.#connection.socket.destroySoon()
  }

  destroy(): void {
    // The response is complete: the connection may serve another one.
    if (this.#over) return
    this.#over = true
    this.#connection.socket.destroy()
  }

  drained(callback: () => void): void {
    this.#onDrain = callback
    limitWrite(this.#connection.socket)
  }

  /** Handles `drain` of the socket. */
  drain(): void {
    const callback = this.#onDrain
    this.#onDrain = null
    callback?.()
  }

  #send(pieces: readonly Uint8Array[]): boolean {
    const { socket } = this.#connection
    const head = this.#head
    this.#head = null
    // The connection reports the disconnect.
    if (socket.destroyed) return true
    if (head === null && pieces.length === 1) return socket.write(pieces[0]!)
    return writeTogether(socket, head ?? '', pieces)
  }
}

let dateSecond = 0
let dateText = ''

/** Value of a `date` header (RFC 9110, 6.6.1), formatted once a second. */
function dateNow(): string {
  const now = Date.now()
  const second = Math.floor(now / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = new Date(now).toUTCString()
  }
  return dateText
}

/**
 * Writes to a client of node:http. `ServerResponse.write` corks the socket until the next tick, which is the largest
 * cost of a single token: only the head goes through it, and later bytes go to the socket.
 */
class ServerResponseWriter implements ResponseWriter {
  readonly #outgoing: ServerResponse
  /** Bytes written are chunk-framed already. */
  #framed = false
  /** The head is on the socket: bytes may follow it without the ServerResponse. */
  #direct = false

  constructor(outgoing: ServerResponse) {
    this.#outgoing = outgoing
  }

  get begun(): boolean {
    return this.#outgoing.headersSent
  }

  get gone(): boolean {
    return this.#outgoing.destroyed
  }

  get takesChunks(): boolean {
    return this.#outgoing.useChunkedEncodingByDefault
  }

  get holds(): boolean {
    const { socket } = this.#outgoing
    return socket === null || socket.writableLength > 0
  }

  head(status: number, headers: readonly string[], framing: ResponseFraming): void {
    const outgoing = this.#outgoing
    this.#framed = framing === 'chunked'
    // Head and first bytes leave together. A pipelined request that waits has no socket: then Node queues.
    outgoing.socket?.cork()
    outgoing.writeHead(status, [...headers, ...framingHeader(framing)])
    // The bytes are framed. Node has no public API for this; test/node/http1/raw-relay.framing.test.ts reads the wire.
    if (this.#framed) outgoing.chunkedEncoding = false
  }

  write(pieces: readonly Uint8Array[], last: boolean): boolean {
    const outgoing = this.#outgoing
    const { socket } = outgoing
    const bytes = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
    if (this.#framed && this.#direct && socket !== null && !last) return socket.write(bytes)
    // The first write sends the head too; the last one leaves with the end of the response.
    if (last) socket?.cork()
    this.#direct = socket !== null
    return outgoing.write(bytes)
  }

  flush(): void {
    if (!this.#direct) this.#outgoing.flushHeaders()
    this.#outgoing.socket?.uncork()
  }

  end(): void {
    const { socket } = this.#outgoing
    this.#outgoing.end()
    if (socket !== null && socket.writableLength > 0) limitWrite(socket)
  }

  truncate(): void {
    const { socket } = this.#outgoing
    if (socket === null) this.#outgoing.destroy()
    // `destroy` would drop what is written.
    else socket.destroySoon()
  }

  destroy(): void {
    this.#outgoing.destroy()
  }

  drained(callback: () => void): void {
    const { socket } = this.#outgoing
    if (socket === null) this.#outgoing.once('drain', callback)
    else {
      socket.once('drain', callback)
      limitWrite(socket)
    }
  }
}

/** Header of a framing that node:http does not add itself, flat. */
function framingHeader(framing: ResponseFraming): readonly string[] {
  if (typeof framing === 'number') return ['content-length', `${framing}`]
  return framing === 'chunked' ? ['transfer-encoding', 'chunked'] : []
}

/** Writer for a request. null: it has no socket to write to (a test's own fetch, HTTP/2). */
export function responseWriterOf({ client }: Pick<RelayScope, 'client'>): ResponseWriter | null {
  if (client === null || client === undefined) return null
  if (isWriter(client)) return client
  const { incoming, outgoing } = client as Partial<HttpBindings>
  if (incoming === undefined || outgoing === undefined) return null
  // An HTTP/2 response's socket is a guard that throws when touched.
  return incoming.httpVersionMajor === 1 ? new ServerResponseWriter(outgoing) : null
}

const isWriter = (client: unknown): client is ResponseWriter =>
  typeof (client as Partial<ResponseWriter>).truncate === 'function'

/**
 * Writes a head (Latin-1) and what follows it in one system call. false: the socket has not taken all of it; `pieces`
 * are in use until it has.
 */
export function writeTogether(socket: Socket, head: string, pieces: readonly Uint8Array[]): boolean {
  let bytes = head.length
  for (const piece of pieces) bytes += piece.length
  if (bytes <= COPIED_BYTES) return writeCopied(socket, bytes, head, pieces)
  socket.cork()
  let flowing = socket.write(head, 'latin1')
  for (const piece of pieces) flowing = socket.write(piece)
  socket.uncork()
  return flowing
}

/** Memory of the next short write. Nearly always the kernel has taken one when `write` returns. */
let scratch = Buffer.allocUnsafeSlow(COPIED_BYTES)

function writeCopied(socket: Socket, bytes: number, head: string, pieces: readonly Uint8Array[]): boolean {
  const whole = scratch.subarray(0, bytes)
  let at = whole.write(head, 'latin1')
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  const flowing = socket.write(whole)
  if (socket.writableLength !== 0) scratch = Buffer.allocUnsafeSlow(COPIED_BYTES)
  return flowing
}
