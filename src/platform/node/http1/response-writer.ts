/** The way back to one client, as the pipe writes it: a head, bytes, an end. What `RequestScope.client` holds on Node. */
import type { HttpBindings } from '@hono/node-server'
import { type ServerResponse, STATUS_CODES } from 'node:http'
import { limitWrite } from '../inbound/connection-guard.ts'
import type { RequestScope } from '../../../ports.ts'
import type { Socket } from 'node:net'
import { chunkOf, LAST_CHUNK } from './chunked.ts'

export interface ResponseWriter {
  /** A head is on its way, or was. */
  readonly begun: boolean
  /** Nobody listens any more. */
  readonly gone: boolean
  /** The client understands chunked bodies. */
  readonly takesChunks: boolean
  /** Memory given to the last write is still in use. */
  readonly holds: boolean
  /**
   * Waits for the first bytes, to leave with them. `headers`: flat name, value, with what frames the body where that is
   * known. `framed`: what is written carries the chunk framing itself.
   */
  head(status: number, headers: readonly string[], framed: boolean): void
  /** `last`: the end follows. false: the client has not taken all of it; `drained` tells when. */
  write(bytes: Uint8Array, last: boolean): boolean
  /** What has been written may leave. */
  flush(): void
  /** The body is complete. */
  end(): void
  /** Ends the connection behind what is written: the client sees a cut. */
  cut(): void
  destroy(): void
  /** Once, when all that was written has been taken. */
  drained(tell: () => void): void
}

/* One answer on a plain connection: its head is put together here and leaves with the first bytes. */

/** The connection an answer goes out on. */
export interface LineOwner {
  readonly socket: Socket
  /** Seconds it may idle, as clients are told. */
  readonly idleS: number
  /** Asked when the head is written: may it serve another request? */
  lasts(): boolean
  /** Told once: the answer is complete. `lasts`: what the client was told. */
  answered(lasts: boolean): void
}

// oxlint-disable-next-line no-control-regex -- control bytes are what it looks for
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/

export class SocketResponseWriter implements ResponseWriter {
  readonly #owner: LineOwner
  readonly takesChunks = true
  begun = false
  /** Written with the next bytes; null: it has been. */
  #head: string | null = null
  #chunks = false
  #lasts = true
  #over = false
  #onDrain: (() => void) | null = null

  constructor(owner: LineOwner) {
    this.#owner = owner
  }

  get socket(): Socket {
    return this.#owner.socket
  }

  get gone(): boolean {
    return this.#owner.socket.destroyed
  }

  get holds(): boolean {
    return this.#owner.socket.writableLength > 0
  }

  /** Throws on a value that no header may have. */
  head(status: number, headers: readonly string[], framed: boolean): void {
    let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`
    let known = framed
    let dated = false
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!
      const value = headers[i + 1]!
      if (NO_VALUE.test(value)) throw new TypeError(`invalid character in header ${name}`)
      known ||= name === 'content-length'
      dated ||= name === 'date'
      text += `${name}: ${value}\r\n`
    }
    this.#chunks = !known
    this.#lasts = this.#owner.lasts()
    if (!known) text += 'transfer-encoding: chunked\r\n'
    if (!dated) text += `date: ${dateNow()}\r\n`
    text += this.#lasts
      ? `connection: keep-alive\r\nkeep-alive: timeout=${this.#owner.idleS}\r\n\r\n`
      : 'connection: close\r\n\r\n'
    this.#head = text
    this.begun = true
  }

  write(bytes: Uint8Array): boolean {
    if (bytes.length === 0 || this.#over) return true
    return this.#send(this.#chunks ? chunkOf([bytes]) : [bytes])
  }

  flush(): void {
    if (this.#head !== null) this.#send([])
  }

  end(): void {
    if (this.#over) return
    if (this.#chunks) this.#send([LAST_CHUNK])
    else this.flush()
    this.#over = true
    if (this.holds) limitWrite(this.#owner.socket)
    this.#owner.answered(this.#lasts)
  }

  cut(): void {
    if (this.#over) return
    this.flush()
    this.#over = true
    this.#owner.socket.destroySoon()
  }

  destroy(): void {
    // The answer is complete: the connection is no longer this one's.
    if (this.#over) return
    this.#over = true
    this.#owner.socket.destroy()
  }

  drained(tell: () => void): void {
    this.#onDrain = tell
    limitWrite(this.#owner.socket)
  }

  /** The socket has taken all. */
  drain(): void {
    const tell = this.#onDrain
    this.#onDrain = null
    tell?.()
  }

  #send(pieces: readonly Uint8Array[]): boolean {
    const { socket } = this.#owner
    const head = this.#head
    this.#head = null
    // Whoever writes hears of it from the connection.
    if (socket.destroyed) return true
    if (head === null && pieces.length === 1) return socket.write(pieces[0]!)
    return writeTogether(socket, head ?? '', pieces)
  }
}

let dateSecond = 0
let dateText = ''

/** As heads say it (RFC 9110, 6.6.1), made once a second. */
function dateNow(): string {
  const now = Date.now()
  const second = Math.floor(now / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = new Date(now).toUTCString()
  }
  return dateText
}

/*
 * A client behind node:http. `ServerResponse.write` corks the socket until the next tick, which for a lone token is the
 * largest cost there is: so the head goes through it, and what follows straight to the socket.
 */

export class ServerResponseWriter implements ResponseWriter {
  readonly #outgoing: ServerResponse
  /** The body brings its own framing. */
  #framed = false
  /** The head is on the socket: bytes may follow past the ServerResponse. */
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

  head(status: number, headers: readonly string[], framed: boolean): void {
    const outgoing = this.#outgoing
    this.#framed = framed
    // Head and first bytes leave together. Null while a pipelined request waits for its turn: then Node queues.
    outgoing.socket?.cork()
    outgoing.writeHead(status, headers as string[])
    // The framing is in the bytes. No other door to this exists; a test reads the wire.
    if (framed) outgoing.chunkedEncoding = false
  }

  write(bytes: Uint8Array, last: boolean): boolean {
    const outgoing = this.#outgoing
    const { socket } = outgoing
    if (this.#framed && this.#direct && socket !== null && !last) return socket.write(bytes)
    // The first write takes the head along; the last goes with the end of the response.
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

  cut(): void {
    const { socket } = this.#outgoing
    if (socket === null) this.#outgoing.destroy()
    // After what is written, not before it as `destroy` would.
    else socket.destroySoon()
  }

  destroy(): void {
    this.#outgoing.destroy()
  }

  drained(tell: () => void): void {
    const { socket } = this.#outgoing
    if (socket === null) this.#outgoing.once('drain', tell)
    else {
      socket.once('drain', tell)
      limitWrite(socket)
    }
  }
}

/** null: there is no socket to write to (a test's own fetch, HTTP/2). */
export function clientLineOf({ client }: RequestScope): ResponseWriter | null {
  if (client === null || client === undefined) return null
  if (isLine(client)) return client
  const { incoming, outgoing } = client as Partial<HttpBindings>
  if (incoming === undefined || outgoing === undefined) return null
  // An HTTP/2 response's socket is a guard that throws when touched.
  return incoming.httpVersionMajor === 1 ? new ServerResponseWriter(outgoing) : null
}

const isLine = (client: unknown): client is ResponseWriter =>
  typeof (client as Partial<ResponseWriter>).cut === 'function'

/** Writes a head (Latin-1) and what follows it in one system call. false: the socket has not taken all of it; `pieces` are in use until it has. */
export function writeTogether(socket: Socket, head: string, pieces: readonly Uint8Array[]): boolean {
  socket.cork()
  let flowing = socket.write(head, 'latin1')
  for (const piece of pieces) flowing = socket.write(piece)
  socket.uncork()
  return flowing
}
