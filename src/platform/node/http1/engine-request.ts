/**
 * One request to an engine over one connection: its timeouts, the head of its response, and the body, which is queued
 * for a reader that pulls or passed to a sink in the tick of its read. All bytes of a request that wait are here.
 */
import { type ByteSource, PullAnswer } from '../../../origin/relay/pull-answer.ts'
import { LeadingComments } from '../../../origin/relay/sse.ts'
import {
  type ResponseHandler,
  type AbortSignalLike,
  OriginError,
  type OriginRequest,
  type RelayOptions,
} from '../../../ports.ts'
import { Deadline, stalledMs } from '../deadline.ts'
import type { ResponseHead } from './message-head.ts'
import { BodyFraming, BROKEN, MORE } from './body-framing.ts'
import { MalformedResponse, type Connection, type ConnectionUser } from './engine-connection.ts'
import type { EngineConnections } from './connection-pool.ts'
import { responseWriterOf } from './response-writer.ts'
import { RawRelay } from './raw-relay.ts'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'

const clock = { now: () => performance.now() }

/** A response whose bytes can go to the client's socket without web streams. */
export class SocketAnswer extends PullAnswer {
  readonly #call: Http1Request

  constructor(head: ResponseHead, call: Http1Request) {
    super(head, call, clock)
    this.#call = call
  }

  get written(): boolean {
    return this.#call.written
  }

  override begun(): Uint8Array {
    return this.held.length === 0 ? this.#call.begun() : super.begun()
  }

  override pass(reply: RelayOptions): Response {
    const line = responseWriterOf(reply.scope)
    if (line === null || this.#call.framing!.kind === 'none' || line.begun) return super.pass(reply)
    const pass = new RawRelay({ reply, sse: this.sse, call: this.#call, line })
    this.takenOver = () => pass.clientGone()
    pass.begin(this.held)
    return RESPONSE_ALREADY_SENT
  }

  protected override firstByteIsHere(): void {
    this.#call.firstByteIsHere()
  }

  protected override release(): void {
    this.#call.release()
  }
}

/** Bytes queued for a reader before the engine's socket is paused. */
const QUEUE_BYTES = 256 * 1024
/** Keep-alive comments held back before the first token. */
const PRELUDE_BYTES = 16 * 1024

/** A stall of the event loop this long extends the timeouts that ran meanwhile. */
const STALL_MS = 100
/**
 * Errors of connect(2) without a descriptor, port or memory for another socket: a limit of this process or machine,
 * not of the engine.
 */
const OWN_LIMITS: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS'])

/** Receives the bytes once the client's head is written. */
export interface BodySink {
  /** Bytes as read, framing included. `last`: the message ends with them. */
  take(bytes: Buffer, framing: BodyFraming, last: boolean): void
  /** The bytes last passed are still in use. */
  readonly holds: boolean
  /** Handles a body that failed before its end. */
  broken(reason: unknown): void
  /** Handles the timeout set by `wakeIn`. */
  due(): void
}

interface Read {
  readonly bytes: Buffer
  readonly last: boolean
  /** The read starts with a chunk: no part of that chunk was withheld. */
  readonly whole: boolean
}

/** Bytes that a sink takes over. */
export interface Waiting {
  /** Payload queued so far. */
  readonly pieces: readonly Buffer[]
  /** The current read, of which no byte is consumed; null: there is none. */
  readonly read: Read | null
  readonly ended: boolean
  readonly failure: unknown
}

export interface CallParts {
  readonly request: OriginRequest
  /** The request's head, as sent. */
  readonly text: string
  readonly connections: EngineConnections
  readonly host: string
}

export class Http1Request implements ByteSource, ConnectionUser {
  /** Request to send, prompt included; null: a response has begun, so nothing is sent again and the memory is free. */
  #parts: CallParts | null
  readonly #host: string
  readonly #signal: AbortSignalLike
  /** null: the response has begun, or its reader pulls. */
  #beginning: ResponseHandler | null
  #connection!: Connection
  #retried = false
  framing: BodyFraming | null = null
  #answer: SocketAnswer | null = null
  readonly #prelude = new LeadingComments()
  readonly #deadline = new Deadline(() => this.#due())
  /** `performance.now()` at which the first byte is due. */
  #firstByteBy: number
  /** `stalledMs()` when the timeout was last set. */
  #stalledBefore = 0
  readonly #onAbort = (): void => this.#aborted()
  #reusable = false
  /** Payload without a reader; created with its first piece. */
  #queue: BodyQueue | null = null
  #read: Read | null = null
  #paused = false
  #ended = false
  #failure: unknown = null
  #sink: BodySink | null = null

  constructor(parts: CallParts, beginning: ResponseHandler) {
    const { request, host } = parts
    this.#parts = parts
    this.#host = host
    this.#signal = request.signal
    this.#beginning = beginning
    this.#firstByteBy = performance.now() + request.firstByteMs
  }

  /** Sends the request. Its signal must not be aborted yet. */
  start(): void {
    this.#signal.addEventListener('abort', this.#onAbort)
    this.#connection = this.#send(this.#parts!, false)
  }

  get holds(): boolean {
    // The queue has copies.
    return this.#sink !== null && this.#sink.holds
  }

  /** Milliseconds left for the first byte. */
  get firstByteInMs(): number {
    return this.#firstByteBy - performance.now()
  }

  /** The request has been sent whole. An engine may respond before that. */
  get written(): boolean {
    return !this.#retried && this.#connection.socket.writableLength === 0
  }

  head(head: ResponseHead): void {
    this.framing = new BodyFraming(head.kind, head.length)
    this.#parts = null
    this.#reusable = !head.close
    const answer = new SocketAnswer(head, this)
    this.#answer = answer
    const beginning = this.#beginning!
    // The call may abandon the response: then there are no further calls.
    this.#beginning = null
    const goesOn = beginning.head(answer)
    if (goesOn) this.#beginning = beginning
    if (goesOn && answer.sse && answer.status < 300 && beginning.patienceMs > 0)
      this.wakeIn(Math.min(this.firstByteInMs, beginning.patienceMs))
    if (this.framing.empty && this.#failure === null) this.#end(this.#reusable)
  }

  bytes(bytes: Buffer): void {
    const framing = this.framing!
    const whole = framing.aligned
    const end = framing.consume(bytes)
    if (end === BROKEN) return this.#connection.fail(new MalformedResponse('broken chunk framing'))
    const last = end !== MORE
    // Bytes after the end of the message: the response is valid, the connection is not reused.
    const own = last && end < bytes.length ? bytes.subarray(0, end) : bytes
    if (last && end < bytes.length) this.#reusable = false
    if (this.#sink !== null) this.#sink.take(own, framing, last)
    else if (this.#beginning !== null && this.#hasContent(own, framing))
      this.#begin({ bytes: own, last, whole }, framing)
    else this.#keep(own, framing)
    if (last && this.#failure === null) this.#end(this.#reusable)
  }

  closed(error: Error | null, untouched: boolean): void {
    if (this.#ended || this.#failure !== null) return
    if (this.framing?.kind === 'close' && error === null) return this.#closedAtEnd(this.framing)
    const host = this.#host
    const { connected, reused } = this.#connection
    if (!connected) return this.#unconnected(error)
    const malformed = error instanceof MalformedResponse
    // The engine closed an idle connection while the request was sent: it has not processed the request, which may be
    // repeated.
    if (!malformed && reused && untouched && this.#parts !== null && !this.#retried && !this.#signal.aborted)
      return this.#again(this.#parts)
    this.#fail(
      new OriginError(
        malformed ? 'malformed' : 'reset',
        `${host} broke the connection: ${error?.message ?? 'closed before the end'}`,
        { cause: error },
      ),
    )
  }

  read(): Promise<Uint8Array | null> {
    const piece = this.#queued.read()
    this.resume()
    return piece
  }

  stop(reason: unknown): void {
    if (this.#ended || this.#failure !== null) return
    this.#connection.drop()
    this.#fail(reason ?? new Error('stopped'))
  }

  /** Releases timeout and signal: the body has ended or is not wanted. */
  release(): void {
    this.#deadline.cancel()
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#parts = null
  }

  firstByteIsHere(): void {
    if (this.#sink === null) this.#deadline.cancel()
  }

  /** Calls the sink's `due` after `ms`. Replaces an earlier timeout. */
  wakeIn(ms: number): void {
    this.#stalledBefore = stalledMs()
    this.#deadline.set(ms)
  }

  /** Returns all bytes that wait. Later bytes go to the sink. */
  handOver(sink: BodySink): Waiting {
    this.#sink = sink
    this.#beginning = null
    const waiting = {
      pieces: this.#queue?.takeAll() ?? [],
      read: this.#read,
      ended: this.#ended,
      failure: this.#failure,
    }
    this.#read = null
    this.resume()
    return waiting
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

  /** Payload that has arrived and waits: at least one event, if there is one. */
  begun(): Buffer {
    if (this.#queue !== null || this.#read === null)
      return Buffer.concat([...(this.#queue?.pieces ?? []), ...this.#payload()])
    const { ranges } = this.framing!
    if (ranges.length === 0) return this.#read.bytes.subarray(0, 0)
    const first = this.#read.bytes.subarray(ranges[0]!, ranges[1]!)
    // A chunk usually is one event.
    return first[first.length - 1] === 10 ? first : Buffer.concat(this.#payload())
  }

  #send({ request, text, connections }: CallParts, fresh: boolean): Connection {
    const connection = connections.take(fresh)
    const leftMs = this.firstByteInMs
    this.wakeIn(connection.connecting ? Math.min(leftMs, request.connectMs) : leftMs)
    connection.use(this, text, request.body)
    return connection
  }

  #again(parts: CallParts): void {
    this.#retried = true
    this.#connection = this.#send(parts, true)
  }

  #hasContent(bytes: Buffer, { ranges, ended }: BodyFraming): boolean {
    if (ended) return true
    if (!this.#answer!.sse) return ranges.length > 0
    if (this.#queue !== null && this.#queue.size > PRELUDE_BYTES) return true
    for (let i = 0; i < ranges.length; i += 2)
      if (this.#prelude.hasContent(bytes, ranges[i]!, ranges[i + 1]!)) return true
    return false
  }

  #begin(read: Read, framing: BodyFraming): void {
    const beginning = this.#beginning!
    this.#beginning = null
    this.#deadline.cancel()
    this.#read = read
    beginning.begun(this.#answer!, false)
    // No sink took it in this tick: queued for a reader.
    if (this.#read === null) return
    this.#read = null
    if (this.#failure === null) this.#keep(read.bytes, framing)
  }

  #due(): void {
    if (this.#extendByStall()) return
    if (this.#sink !== null) return this.#sink.due()
    const leftMs = this.firstByteInMs
    if (leftMs <= 0)
      return this.stop(new OriginError('first_byte_timeout', `no byte of a body from ${this.#host} in time`))
    if (this.framing === null && this.#connection.connecting)
      return this.stop(new OriginError('connect_timeout', `no connection to ${this.#host} in time`))
    // The early limit has expired: the caller continues without a first byte.
    const early = this.framing === null ? null : this.#beginning
    this.wakeIn(leftMs)
    if (early === null) return
    this.#beginning = null
    early.begun(this.#answer!, true)
  }

  /** Extends the timeout by the time in which this process did not run: the engine is not at fault for it. */
  #extendByStall(): boolean {
    const lostMs = stalledMs() - this.#stalledBefore
    if (lostMs < STALL_MS) return false
    this.#firstByteBy += lostMs
    this.wakeIn(lostMs)
    return true
  }

  #unconnected(error: NodeJS.ErrnoException | null): void {
    const isOwn = OWN_LIMITS.has(error?.code)
    const parts = this.#parts
    if (isOwn && parts !== null && !this.#retried && !this.#signal.aborted && parts.connections.freeDescriptors())
      return this.#again(parts)
    this.#fail(
      new OriginError(
        isOwn ? 'gateway_limit' : 'connect',
        `cannot connect to ${this.#host}: ${error?.message ?? 'closed'}`,
        { cause: error },
      ),
    )
  }

  #aborted(): void {
    const { reason } = this.#signal
    if (this.#answer === null) this.stop(reason)
    else this.#answer.gone(reason)
  }

  /** Queues the payload of a read, without framing, as one piece. */
  #keep(bytes: Buffer, framing: BodyFraming): void {
    if (framing.ranges.length === 0) return
    this.#read = { bytes, last: false, whole: false }
    // A copy: the connection reuses the memory.
    const payload = Buffer.concat(this.#payload())
    this.#read = null
    this.#queued.put(payload)
    if (this.#queued.size > QUEUE_BYTES && !this.#paused) this.pause()
  }

  get #queued(): BodyQueue {
    if (this.#queue !== null) return this.#queue
    this.#queue = new BodyQueue()
    if (this.#ended) this.#queue.end()
    if (this.#failure !== null) this.#queue.fail(this.#failure)
    return this.#queue
  }

  #payload(): Buffer[] {
    const { ranges } = this.framing!
    const pieces: Buffer[] = []
    if (this.#read !== null)
      for (let i = 0; i < ranges.length; i += 2) pieces.push(this.#read.bytes.subarray(ranges[i]!, ranges[i + 1]!))
    return pieces
  }

  /** Handles a message that ends with its connection. */
  #closedAtEnd(framing: BodyFraming): void {
    framing.finish()
    this.#sink?.take(Buffer.alloc(0), framing, true)
    this.#end(false)
  }

  #end(reusable: boolean): void {
    this.resume()
    this.#ended = true
    this.#connection.free(reusable)
    const beginning = this.#beginning
    this.#beginning = null
    beginning?.begun(this.#answer!, false)
    this.#queue?.end()
  }

  #fail(reason: unknown): void {
    this.#failure = reason
    const beginning = this.#beginning
    this.#beginning = null
    if (this.#sink !== null) return this.#sink.broken(reason)
    if (beginning === null) return this.#queue?.fail(reason)
    this.release()
    beginning.failed(reason)
  }
}

/** Payload that waits for its reader. */
class BodyQueue {
  #pieces: Buffer[] = []
  #size = 0
  #ended = false
  #failure: { readonly reason: unknown } | null = null
  #waiting: { resolve(chunk: Uint8Array | null): void; reject(error: unknown): void } | null = null

  /** Bytes that wait. */
  get size(): number {
    return this.#size
  }

  /** Adds a piece, whose memory must not change. */
  put(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#size += piece.length
    this.#serve()
  }

  end(): void {
    this.#ended = true
    this.#serve()
  }

  fail(reason: unknown): void {
    this.#failure = { reason }
    this.#serve()
  }

  /**
   * Resolves with the next piece; null: the end. Rejects, behind the last piece, with the reason given to `fail`. One
   * call at a time.
   */
  read(): Promise<Uint8Array | null> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
      this.#serve()
    })
  }

  /** Pieces that wait; they stay in the queue. */
  get pieces(): readonly Buffer[] {
    return this.#pieces
  }

  takeAll(): readonly Buffer[] {
    const pieces = this.#pieces
    this.#pieces = []
    this.#size = 0
    return pieces
  }

  #serve(): void {
    const waiting = this.#waiting
    if (waiting === null) return
    const piece = this.#pieces.shift()
    if (piece === undefined && !this.#ended && this.#failure === null) return
    this.#waiting = null
    if (piece !== undefined) {
      this.#size -= piece.length
      waiting.resolve(piece)
    } else if (this.#failure !== null) waiting.reject(this.#failure.reason)
    else waiting.resolve(null)
  }
}
