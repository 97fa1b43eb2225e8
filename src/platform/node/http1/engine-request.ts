/**
 * One request to an engine over one connection: its limits, its answer's head, and the body as it comes, kept for whoever
 * pulls it or handed to a sink byte for byte in the tick of its read. Everything of a request that waits, waits here.
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
import type { ParsedHead } from './response-head.ts'
import { BodyFraming, BROKEN, MORE } from './body-framing.ts'
import { BodyQueue } from './body-queue.ts'
import { MalformedAnswer, type Connection, type ConnectionUser } from './engine-connection.ts'
import type { EngineConnections } from './connection-pool.ts'
import { clientLineOf } from './response-writer.ts'
import { RawRelay } from './raw-relay.ts'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'

const clock = { now: () => performance.now() }

/** An answer whose bytes can go straight to the client's socket; everything else is the plain answer's. */
export class SocketAnswer extends PullAnswer {
  readonly #call: Http1Request

  constructor(head: ParsedHead, call: Http1Request) {
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
    const line = clientLineOf(reply.scope)
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

/** What may wait here before the engine is held back. */
const QUEUE_BYTES = 256 * 1024
/** Keep-alive comments that may be held back while no token has come. */
const PRELUDE_BYTES = 16 * 1024

/** A stall this long is given back to the time limit that ran meanwhile. */
const STALL_MS = 100
/** connect(2) has no descriptor, port or memory for another socket: the limit is this process's, or its machine's. */
const OWN_LIMITS: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS'])

/** Takes the bytes over from the moment the client's head is written. */
export interface BodySink {
  /** Raw bytes as read, framing included. `last`: the message ends with them. */
  take(bytes: Buffer, framing: BodyFraming, last: boolean): void
  /** Bytes given are still in use after the call. */
  readonly holds: boolean
  /** The body broke before its end. */
  broken(reason: unknown): void
  /** A time it asked for with `wakeIn` has come. */
  due(): void
}

interface Read {
  readonly bytes: Buffer
  readonly last: boolean
  /** It begins where a chunk begins: of its first chunk nothing was withheld. */
  readonly whole: boolean
}

/** What a sink finds when it takes over. */
export interface Waiting {
  /** Payload kept so far. */
  readonly pieces: readonly Buffer[]
  /** The read this happens in: raw bytes, not consumed by anyone yet; null: it happens in none. */
  readonly read: Read | null
  readonly ended: boolean
  readonly failure: unknown
}

export interface CallParts {
  readonly request: OriginRequest
  /** The request's head as it goes out. */
  readonly text: string
  readonly connections: EngineConnections
  readonly host: string
}

export class Http1Request implements ByteSource, ConnectionUser {
  /** What sending takes, and with it the prompt; null: an answer is coming, nothing is sent again. */
  #parts: CallParts | null
  readonly #host: string
  readonly #signal: AbortSignalLike
  /** null: it has begun, or whoever asked takes it from here. */
  #beginning: ResponseHandler | null
  #connection!: Connection
  #retried = false
  framing: BodyFraming | null = null
  #answer: SocketAnswer | null = null
  readonly #prelude = new LeadingComments()
  readonly #deadline = new Deadline(() => this.#due())
  /** `performance.now()` by which the first byte must be here. */
  #firstByteBy: number
  /** `stalledMs()` when the time limit was last set. */
  #stalledBefore = 0
  /** The time limit has run out; it is judged once the sockets have been read. */
  #isDue = false
  readonly #onAbort = (): void => this.#aborted()
  #reusable = false
  /** What nobody has asked for yet; made when there is something to wait. */
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

  /** Sends. The signal must not be aborted yet. */
  start(): void {
    this.#signal.addEventListener('abort', this.#onAbort)
    this.#connection = this.#send(this.#parts!, false)
  }

  get holds(): boolean {
    // What waits in the queue was copied.
    return this.#sink !== null && this.#sink.holds
  }

  /** Milliseconds left for the first byte. */
  get firstByteInMs(): number {
    return this.#firstByteBy - performance.now()
  }

  /** An engine may answer before it has read all that it was sent. */
  get written(): boolean {
    return !this.#retried && this.#connection.socket.writableLength === 0
  }

  head(head: ParsedHead): void {
    this.framing = new BodyFraming(head.kind, head.length)
    this.#parts = null
    this.#reusable = !head.close
    const answer = new SocketAnswer(head, this)
    this.#answer = answer
    const beginning = this.#beginning!
    // It may be let go in the call: whoever did that hears no more.
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
    if (end === BROKEN) return this.#connection.fail(new MalformedAnswer('broken chunk framing'))
    const last = end !== MORE
    // Bytes after the end of the message: the answer stands, the connection is not trusted again.
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
    const malformed = error instanceof MalformedAnswer
    // The engine closed an idle connection as we took it: no work was begun, so a fresh one may try again.
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

  /** Lets go of the time limit and of the signal: the body has ended, or nobody wants it. */
  release(): void {
    this.#cancelLimit()
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#parts = null
  }

  firstByteIsHere(): void {
    if (this.#sink === null) this.#cancelLimit()
  }

  /** The sink's `due` is called no earlier than that; later words take the place of earlier ones. */
  wakeIn(ms: number): void {
    this.#isDue = false
    this.#stalledBefore = stalledMs()
    this.#deadline.set(ms)
  }

  #cancelLimit(): void {
    this.#isDue = false
    this.#deadline.cancel()
  }

  /** All that waits here. The sink gets what comes after it. */
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

  /** The payload that has come and that nobody has taken, as far as one event. */
  begun(): Buffer {
    if (this.#queue !== null || this.#read === null)
      return Buffer.concat([...(this.#queue?.pieces ?? []), ...this.#payload()])
    const { ranges } = this.framing!
    if (ranges.length === 0) return this.#read.bytes.subarray(0, 0)
    const first = this.#read.bytes.subarray(ranges[0]!, ranges[1]!)
    // A chunk is an event as a rule.
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
    this.#cancelLimit()
    this.#read = read
    beginning.begun(this.#answer!, false)
    // Nobody took it in this tick: kept for whoever pulls it.
    if (this.#read === null) return
    this.#read = null
    if (this.#failure === null) this.#keep(read.bytes, framing)
  }

  #due(): void {
    if (this.#giveBackStall()) return
    if (this.#sink !== null) return this.#sink.due()
    // Timers run before sockets are read: what is waited for may be here.
    this.#isDue = true
    setImmediate(() => this.#judge())
  }

  #judge(): void {
    if (!this.#isDue) return
    this.#isDue = false
    if (this.#sink !== null) return this.#sink.due()
    const leftMs = this.firstByteInMs
    if (leftMs <= 0)
      return this.stop(new OriginError('first_byte_timeout', `no byte of a body from ${this.#host} in time`))
    if (this.framing === null && this.#connection.connecting)
      return this.stop(new OriginError('connect_timeout', `no connection to ${this.#host} in time`))
    // Patience is over: whoever waits for the first byte goes on without it.
    const early = this.framing === null ? null : this.#beginning
    this.wakeIn(leftMs)
    if (early === null) return
    this.#beginning = null
    early.begun(this.#answer!, true)
  }

  /** While this process did not run, the engine could not be heard: that time is not the engine's. */
  #giveBackStall(): boolean {
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

  /** Payload only: whoever pulls has no use for framing. One piece per read. */
  #keep(bytes: Buffer, framing: BodyFraming): void {
    if (framing.ranges.length === 0) return
    this.#read = { bytes, last: false, whole: false }
    // A copy: the connection reads on into the same memory.
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
