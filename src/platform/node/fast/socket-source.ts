/** An answer's body over one connection: pulled piece by piece, or handed to a sink byte for byte. */
import type { ByteSource } from '../../../origin/pulled-answer.ts'
import { OriginError } from '../../../ports.ts'
import type { ParsedHead } from './answer-head.ts'
import { BodyFraming, BROKEN, MORE } from './body-framing.ts'
import { MalformedAnswer, type Connection, type ConnectionUser } from './connection.ts'

/** What may wait here before the engine is held back. */
const QUEUE_BYTES = 256 * 1024

/** Takes the bytes over from the moment the client's head is written. */
export interface BodySink {
  /** Raw bytes as read, framing included. `last`: the message ends with them. */
  take(bytes: Buffer, framing: BodyFraming, last: boolean): void
  /** Bytes given are still in use after the call. */
  readonly holds: boolean
  /** The body broke before its end. */
  broken(reason: unknown): void
}

export class SocketSource implements ByteSource, ConnectionUser {
  readonly head: (head: ParsedHead) => void
  readonly #connection: Connection
  readonly #host: string
  readonly #beforeHead: (error: OriginError, untouched: boolean) => void
  framing: BodyFraming | null = null
  #reusable = false
  #queue: Buffer[] = []
  #queuedBytes = 0
  #paused = false
  #ended = false
  #failure: unknown = null
  #waiting: { resolve(chunk: Uint8Array | null): void; reject(error: unknown): void } | null = null
  #sink: BodySink | null = null

  constructor(connection: Connection, host: string, on: { head(head: ParsedHead): void; failed(error: OriginError, untouched: boolean): void }) {
    this.#connection = connection
    this.#host = host
    this.#beforeHead = on.failed
    this.head = (head) => {
      this.framing = new BodyFraming(head.kind, head.length)
      this.#reusable = !head.close
      on.head(head)
      if (this.framing.empty) this.#end(this.#reusable)
    }
  }

  get holds(): boolean {
    // What waits in the queue was copied.
    return this.#sink !== null && this.#sink.holds
  }

  bytes(bytes: Buffer): void {
    const framing = this.framing!
    const end = framing.consume(bytes)
    if (end === BROKEN) return this.#connection.fail(new MalformedAnswer('broken chunk framing'))
    const last = end !== MORE
    // Bytes after the end of the message: the answer stands, the connection is not trusted again.
    const own = last && end < bytes.length ? bytes.subarray(0, end) : bytes
    if (last && end < bytes.length) this.#reusable = false
    if (this.#sink === null) this.#keep(own, framing)
    else this.#sink.take(own, framing, last)
    if (last) this.#end(this.#reusable)
  }

  closed(error: Error | null, untouched: boolean): void {
    if (this.#ended || this.#failure !== null) return
    if (this.framing?.kind === 'close' && error === null) return this.#closedAtEnd(this.framing)
    const failure = error instanceof MalformedAnswer ? 'malformed' : 'reset'
    const wrapped = new OriginError(failure, `${this.#host} broke the connection: ${error?.message ?? 'closed before the end'}`, { cause: error })
    if (this.framing === null) {
      this.#failure = wrapped
      return this.#beforeHead(wrapped, untouched)
    }
    this.#fail(wrapped)
  }

  read(): Promise<Uint8Array | null> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
      this.#serve()
    })
  }

  stop(reason: unknown): void {
    if (this.#ended || this.#failure !== null) return
    this.#connection.drop()
    this.#fail(reason ?? new Error('stopped'))
  }

  /** All payload that waits here, and whether it is the whole rest. The sink gets what comes after it. */
  handOver(sink: BodySink): { readonly waiting: readonly Buffer[]; readonly ended: boolean; readonly failure: unknown } {
    this.#sink = sink
    const waiting = this.#queue
    this.#queue = []
    this.#queuedBytes = 0
    this.resume()
    return { waiting, ended: this.#ended, failure: this.#failure }
  }

  pause(): void {
    this.#paused = true
    this.#connection.socket.pause()
  }

  resume(): void {
    if (!this.#paused || this.#ended || this.#failure !== null) return
    this.#paused = false
    this.#connection.socket.resume()
  }

  /** Payload only: whoever pulls has no use for framing. One piece per read. */
  #keep(bytes: Buffer, framing: BodyFraming): void {
    const { ranges } = framing
    if (ranges.length === 0) return
    const pieces: Buffer[] = []
    for (let i = 0; i < ranges.length; i += 2) pieces.push(bytes.subarray(ranges[i]!, ranges[i + 1]!))
    // A copy: the connection reads on into the same memory.
    const payload = Buffer.concat(pieces)
    this.#queue.push(payload)
    this.#queuedBytes += payload.length
    if (this.#queuedBytes > QUEUE_BYTES && !this.#paused) this.pause()
    this.#serve()
  }

  #serve(): void {
    const waiting = this.#waiting
    if (waiting === null) return
    const chunk = this.#queue.shift()
    if (chunk === undefined && !this.#ended && this.#failure === null) return
    this.#waiting = null
    if (chunk !== undefined) {
      this.#queuedBytes -= chunk.length
      this.resume()
      waiting.resolve(chunk)
    } else if (this.#ended) waiting.resolve(null)
    else waiting.reject(this.#failure)
  }

  /** The close was the end of the message. */
  #closedAtEnd(framing: BodyFraming): void {
    framing.finish()
    this.#sink?.take(Buffer.alloc(0), framing, true)
    this.#end(false)
  }

  #end(reusable: boolean): void {
    this.resume()
    this.#ended = true
    this.#connection.free(reusable)
    this.#serve()
  }

  #fail(reason: unknown): void {
    this.#failure = reason
    if (this.#sink !== null) this.#sink.broken(reason)
    else this.#serve()
  }
}
