/** The way back to one client, as the pipe writes it: a head, bytes, an end. What `RequestScope.client` holds on Node. */
import { IncomingMessage, ServerResponse } from 'node:http'
import { limitWrite } from './connection-guard.ts'
import type { RequestScope } from '../../../ports.ts'

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

/** What the adapter of @hono/node-server gives: the objects node:http made for the request. */
export interface NodeClient {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
}

/** null: there is no socket to write to (a test's own fetch, HTTP/2). */
export function clientLineOf({ client }: RequestScope): ResponseWriter | null {
  if (client === null || client === undefined) return null
  if (isLine(client)) return client
  const { incoming, outgoing } = client as Partial<NodeClient>
  if (incoming === undefined || outgoing === undefined) return null
  // An HTTP/2 response's socket is a guard that throws when touched.
  return incoming.httpVersionMajor === 1 ? new ServerResponseWriter(outgoing) : null
}

const isLine = (client: unknown): client is ResponseWriter =>
  typeof (client as Partial<ResponseWriter>).cut === 'function'
