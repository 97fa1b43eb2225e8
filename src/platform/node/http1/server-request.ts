/** A plain request, as handlers read it. */
import type { HeaderSource } from '../../../origin/headers.ts'
import type { BodyAllocation } from '../../../body-memory.ts'
import { Failure } from '../../../failure.ts'
import { BodyBuffer, releaseBuffer } from '../inbound/body-buffer.ts'
import { ChunkedDecoder } from './chunked-decoder.ts'
import { ClientSignal } from './client-signal.ts'
import type { Http1RequestHead } from './request-head.ts'

/** First memory of a body with a declared length: a declaration alone must cost no more. */
const FIRST_BYTES = 256 * 1024
/** First memory of a chunked body. */
const FIRST_CHUNKED_BYTES = 4 * 1024
const NO_BYTES = Buffer.alloc(0)
const DISCONNECTED = 'the client closed the connection before its request was complete'

/** An `HttpRequest` that collects its own body. */
export class ServerRequest {
  readonly method = 'POST'
  /** Path and query. */
  readonly url: string
  readonly headers: HeaderSource
  /** Aborted when the client disconnects. */
  readonly signal = new ClientSignal()
  readonly #head: Http1RequestHead
  /** null: the length was declared. */
  readonly #chunks: ChunkedDecoder | null
  /** Bytes of the body still to come; infinite until the last chunk. */
  #missing: number
  /** null: the body arrived in one read, so far. */
  #buffer: BodyBuffer | null = null
  /** The body, if it arrived in one read: a view of that read. */
  #whole: Buffer | null = null
  /** Bytes of the body are discarded. */
  #unwanted = false
  /** Largest body that is collected; unknown before `collect`. */
  #limitBytes = Infinity
  #memory: BodyAllocation | null = null
  #failure: Error | null = null
  #collected: { resolve(body: Uint8Array | null): void; reject(error: Error): void } | null = null

  constructor(head: Http1RequestHead) {
    this.#head = head
    this.url = head.url
    this.headers = head.headers
    this.#chunks = head.length === null ? new ChunkedDecoder() : null
    this.#missing = head.length ?? Infinity
  }

  get isChunked(): boolean {
    return this.#chunks !== null
  }

  get close(): boolean {
    return this.#head.close
  }

  /** Bytes of the body still to come; infinite if unknown: chunked or malformed. */
  get missing(): number {
    return this.#missing
  }

  /** The end of the body cannot be found: nothing more can be read on this connection. */
  get malformed(): boolean {
    return this.#chunks?.malformed === true
  }

  /** Bytes of a chunked body that were discarded. */
  skipped = 0

  /**
   * Consumes a read and returns how many of its bytes belong to the body. Each read is fresh memory, which may be
   * kept, changed or freed.
   */
  take(bytes: Buffer): number {
    if (this.#missing === 0 || this.malformed) return 0
    return this.#chunks === null ? this.#takePlain(bytes) : this.#takeChunks(bytes, this.#chunks)
  }

  /**
   * Returns the body if it is there, or resolves with it; null: it is longer than `limitBytes`. Rejects if the client
   * disconnects, or with a Failure.
   */
  collect(limitBytes: number, memory?: BodyAllocation | null): Promise<Uint8Array | null> | Uint8Array | null {
    this.#limitBytes = limitBytes
    this.#memory = memory ?? null
    this.#hold(this.#whole?.length ?? this.#buffer?.length ?? 0)
    if ((this.#head.length ?? this.#buffer?.length ?? 0) > limitBytes) {
      this.discard()
      return null
    }
    if (this.#missing === 0 && this.#failure === null && !this.signal.aborted) return this.#takeBody()
    return new Promise((resolve, reject) => {
      this.#collected = { resolve, reject }
      if (this.signal.aborted) reject(new Error(DISCONNECTED))
      else if (this.#failure !== null) reject(this.#failure)
    })
  }

  /** Handles a client disconnect. */
  clientGone(): void {
    if (this.signal.aborted) return
    this.#collected?.reject(new Error(DISCONNECTED))
    this.#collected = null
    this.signal.abort(new Error('the client closed the connection'))
  }

  /** Discards the rest of the body. */
  discard(): void {
    this.#unwanted = true
    this.#whole = null
    this.#collected = null
  }

  giveBack(): void {
    this.#buffer?.free()
  }

  #takePlain(bytes: Buffer): number {
    const taken = Math.min(bytes.length, this.#missing)
    const body = taken === bytes.length ? bytes : bytes.subarray(0, taken)
    if (!this.#unwanted && taken > 0 && this.#hold(taken)) {
      if (taken === this.#head.length) this.#whole = body
      else {
        this.#put(body)
        releaseBuffer(body)
      }
    }
    this.#missing -= taken
    if (this.#missing === 0) this.#settle()
    return taken
  }

  #takeChunks(bytes: Buffer, chunks: ChunkedDecoder): number {
    const length = chunks.take(bytes)
    const { taken, done, malformed } = chunks
    if (done) this.#missing = 0
    if (!this.#unwanted && length > 0 && this.#hold(length)) this.#put(bytes.subarray(0, length))
    if (this.#unwanted) this.skipped += taken
    if (taken === bytes.length) releaseBuffer(bytes)
    if (this.#buffer !== null && this.#buffer.length > this.#limitBytes) {
      this.#collected?.resolve(null)
      this.discard()
      this.giveBack()
    } else if (malformed) this.#fail(new Failure('bad_http', 'The chunks of the request body are malformed.'))
    else if (done) this.#settle()
    return taken
  }

  /** Books memory for bytes of the body. false: there is none, and the rest is discarded. */
  #hold(bytes: number): boolean {
    try {
      this.#memory?.grow(bytes)
      return true
    } catch (failure) {
      this.#fail(failure as Error)
      this.discard()
      this.giveBack()
      return false
    }
  }

  #fail(failure: Error): void {
    this.#failure = failure
    this.#collected?.reject(failure)
    this.#collected = null
  }

  #settle(): void {
    const collected = this.#collected
    if (collected === null) return
    this.#collected = null
    collected.resolve(this.#takeBody())
  }

  #takeBody(): Uint8Array {
    const body = this.#whole ?? (this.#buffer === null || this.#buffer.length === 0 ? NO_BYTES : this.#buffer.bytes)
    this.#whole = null
    return body
  }

  #put(bytes: Uint8Array): void {
    const { length } = this.#head
    this.#buffer ??=
      length === null ? new BodyBuffer(FIRST_CHUNKED_BYTES, Infinity) : new BodyBuffer(FIRST_BYTES, length)
    this.#buffer.put(bytes)
  }
}
