/**
 * Writes one answer to the client: head and first bytes in one packet, then straight to the socket.
 * `ServerResponse.write` corks the socket until the next tick; for a lone token that is the largest cost there is.
 */
import type { ServerResponse } from 'node:http'
import type { BodyFraming } from './body-framing.ts'
import { chunkOf } from './passed.ts'

const CRLF = Buffer.from('\r\n')
const LAST_CHUNK = Buffer.from('0\r\n\r\n')

export class ClientWriter {
  readonly #outgoing: ServerResponse
  readonly #framing: BodyFraming
  readonly #onDrain: () => void
  /** The client reads the engine's chunk framing; false: Node frames (or the close delimits) what we write. */
  #ours = false
  #waiting = false
  /** The head is on the socket: bytes may follow past the ServerResponse. */
  #direct = false

  constructor(outgoing: ServerResponse, framing: BodyFraming, onDrain: () => void) {
    this.#outgoing = outgoing
    this.#framing = framing
    this.#onDrain = onDrain
  }

  /** The client has not taken what was written. */
  get full(): boolean {
    return this.#waiting
  }

  /** Bytes may go to the client as the engine framed them. */
  get asFramed(): boolean {
    return this.#ours || this.#framing.chunks === null
  }

  /** Memory given to the last write is still in use. */
  get holds(): boolean {
    const { socket } = this.#outgoing
    return socket === null || socket.writableLength > 0
  }

  open(status: number, headers: readonly string[]): void {
    const outgoing = this.#outgoing
    const flat = [...headers]
    this.#ours = this.#framing.kind === 'chunked' && outgoing.useChunkedEncodingByDefault
    if (this.#ours) flat.push('transfer-encoding', 'chunked')
    else if (this.#framing.kind === 'length') flat.push('content-length', String(this.#framing.length))
    // Head and first bytes leave together. Null while a pipelined request waits for its turn: then Node queues.
    outgoing.socket?.cork()
    outgoing.writeHead(status, flat)
    // The framing is in the bytes we write. No other door to this exists; a test reads the wire.
    if (this.#ours) outgoing.chunkedEncoding = false
  }

  /** Bytes as the engine framed them. */
  raw(bytes: Buffer, last: boolean): void {
    const { chunks } = this.#framing
    if (!this.#ours || chunks === null || !chunks.trailers) this.#write(bytes, last)
    else {
      // Trailers are not passed on: stop after the last chunk's line and close the message.
      const kept = bytes.subarray(0, chunks.afterLastChunk)
      this.#write(last ? Buffer.concat([kept, CRLF]) : kept, last)
    }
    if (last) this.#outgoing.end()
  }

  /** Parts of what the engine framed, each of whole chunks. */
  parts(parts: readonly Uint8Array[], last: boolean): void {
    const bytes = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
    if (bytes.length === 0 && !this.#direct) this.#outgoing.flushHeaders()
    this.raw(bytes, last)
  }

  /** The head has been written, and what came with it: both may go. */
  began(): void {
    this.#outgoing.socket?.uncork()
  }

  /** Payload in a chunk of our own. */
  rebuilt(pieces: readonly Uint8Array[], last: boolean): void {
    const parts: Uint8Array[] = []
    const filled = pieces.filter((piece) => piece.length > 0)
    if (filled.length > 0) parts.push(...(this.#ours ? chunkOf(filled) : filled))
    if (last && this.#ours) parts.push(LAST_CHUNK)
    if (parts.length > 0) this.#write(parts.length === 1 ? parts[0]! : Buffer.concat(parts), last)
    else if (!last) this.#outgoing.flushHeaders()
    this.began()
    if (last) this.#outgoing.end()
  }

  /** Nothing we wrote is half a chunk. */
  atBoundary(framing: BodyFraming, inStep: boolean): boolean {
    return !this.#ours || !inStep || framing.aligned
  }

  /** The end of a broken answer: no last chunk, so the client sees a cut. `event` goes out before it. */
  cut(event: Uint8Array | null): void {
    const outgoing = this.#outgoing
    const { socket } = outgoing
    if (event === null || socket === null || socket.destroyed) return void outgoing.destroy()
    this.rebuilt([event], false)
    // After what is written, not before it as `destroy` would.
    socket.destroySoon()
  }

  #write(bytes: Uint8Array, last: boolean): void {
    if (bytes.length === 0) return
    const { socket } = this.#outgoing
    let flowing: boolean
    if (this.#ours && this.#direct && socket !== null && !last) flowing = socket.write(bytes)
    else {
      // The first write takes the head along; the last goes with the end of the response.
      if (last) socket?.cork()
      flowing = this.#outgoing.write(bytes)
      this.#direct = socket !== null
    }
    if (flowing || this.#waiting || last) return
    this.#waiting = true
    const drain = (): void => {
      this.#waiting = false
      this.#onDrain()
    }
    if (socket === null) this.#outgoing.once('drain', drain)
    else socket.once('drain', drain)
  }
}
