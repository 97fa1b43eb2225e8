/**
 * A client behind node:http. `ServerResponse.write` corks the socket until the next tick, which for a lone token is the
 * largest cost there is: so the head goes through it, and what follows straight to the socket.
 */
import type { ServerResponse } from 'node:http'
import type { ClientLine } from './client-line.ts'

export class NodeLine implements ClientLine {
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
    this.#outgoing.end()
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
    else socket.once('drain', tell)
  }
}
