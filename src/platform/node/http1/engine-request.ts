/**
 * One request to an engine over one connection: its timeouts, the head of its response, and the body, which is queued
 * for a reader that pulls or passed to a sink in the tick of its read. All bytes of a request that wait are here.
 */
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { type ByteSource, PullAnswer } from '../../../origin/relay/pull-answer.ts'
import { expectedOf, type ExpectedAnswer } from '../../../origin/relay/answer-start.ts'
import type { AbortSignalLike } from '../../../ports/abort-signal.ts'
import { OriginError, type OriginRequest, type ResponseHandler, STALE_CONNECTION_MS } from '../../../ports/origin.ts'
import type { RelayOptions } from '../../../ports/relay.ts'
import { PatientTimer } from '../patient-timer.ts'
import { stalledMs } from '../wheel-timer.ts'
import { BodyFraming, BROKEN, MORE } from './body-framing.ts'
import { BodyQueue } from './body-queue.ts'
import type { BodyRead, BodySink, PendingBody, RelayedRequest } from './body-sink.ts'
import type { ConnectionPool } from './connection-pool.ts'
import { type ConnectionUser, type EngineConnection, MalformedResponse } from './engine-connection.ts'
import { RawRelay } from './raw-relay.ts'
import type { ResponseHead } from './response-head.ts'
import { responseWriterOf } from './response-writer.ts'

const now = (): number => performance.now()

/** A response whose bytes can go to the client's socket without web streams. */
export class SocketAnswer extends PullAnswer {
  readonly #request: EngineRequest

  constructor(head: ResponseHead, request: EngineRequest) {
    super(head, request, { now, expected: request.expected })
    this.#request = request
  }

  get written(): boolean {
    return this.#request.written
  }

  override firstBytes(): Uint8Array {
    return this.held.length === 0 ? this.#request.firstBytes() : super.firstBytes()
  }

  override pass(options: RelayOptions): Response {
    const writer = responseWriterOf(options.scope)
    const { kind } = this.#request.framing!
    // A stream with a length loses its usage record or gets an error event, so the length does not hold for the client.
    const isPulled = kind === 'none' || (kind === 'length' && this.sse)
    if (writer === null || isPulled || writer.begun) return super.pass(options)
    const relay = new RawRelay({ options, sse: this.sse, start: this.start, request: this.#request, writer })
    this.takenOver = relay
    relay.begin(this.held)
    return RESPONSE_ALREADY_SENT
  }

  protected override firstByteIsHere(): void {
    this.#request.firstByteIsHere()
  }

  protected override release(): void {
    this.#request.release()
  }
}

/** Bytes queued for a reader before the engine's socket is paused. */
const QUEUE_BYTES = 256 * 1024

/**
 * Errors of connect(2) without a descriptor, port or memory for another socket: a limit of this process or machine,
 * not of the engine.
 */
const OWN_LIMITS: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS'])

/** @testing */
export interface EngineRequestParts {
  readonly request: OriginRequest
  /** The request's head, as sent. */
  readonly text: string
  readonly connections: ConnectionPool
  readonly host: string
}

export class EngineRequest implements ByteSource, ConnectionUser, RelayedRequest {
  /** Request to send, prompt included; null: a response has begun, so nothing is sent again and the memory is free. */
  #parts: EngineRequestParts | null
  readonly #host: string
  readonly #signal: AbortSignalLike
  readonly expected: ExpectedAnswer
  /** null: the response has begun, or its reader pulls. */
  #handler: ResponseHandler | null
  #connection!: EngineConnection
  #retried = false
  framing: BodyFraming | null = null
  #answer: SocketAnswer | null = null
  readonly #timer = new PatientTimer(() => this.#onTimeout())
  /** `performance.now()` at which the first byte is due. */
  #firstByteBy = 0
  /** `performance.now()` and `stalledMs()` when the request was sent. */
  #sentAt = 0
  #sentStalled = 0
  readonly #onAbort = (): void => this.#aborted()
  #reusable = false
  /** Payload without a reader; created with its first piece. */
  #queue: BodyQueue | null = null
  #currentRead: BodyRead | null = null
  #paused = false
  #ended = false
  #failure: unknown = null
  #sink: BodySink | null = null

  constructor(parts: EngineRequestParts, handler: ResponseHandler) {
    const { request, host } = parts
    this.#parts = parts
    this.#host = host
    this.#signal = request.signal
    this.expected = expectedOf(request)
    this.#handler = handler
  }

  /** Sends the request. Its signal must not be aborted yet. */
  start(): void {
    const parts = this.#parts!
    this.#signal.addEventListener('abort', this.#onAbort)
    this.#sentAt = performance.now()
    this.#firstByteBy = this.#sentAt + parts.request.firstByteMs
    this.#connection = this.#startOn(parts, false)
  }

  get holds(): boolean {
    // The queue has copies.
    return this.#sink !== null && this.#sink.holds
  }

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
    const handler = this.#handler!
    // The call may abandon the response: then there are no further calls.
    this.#handler = null
    const goesOn = handler.head(answer)
    if (goesOn) this.#handler = handler
    if (goesOn && answer.sse && answer.status < 300 && handler.patienceMs > 0)
      this.wakeIn(Math.min(this.firstByteInMs, handler.patienceMs))
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
    else if (this.#handler !== null && this.#hasContent(own, framing)) this.#begin({ bytes: own, last, whole }, framing)
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
    const isStale = !malformed && reused && untouched && this.#isJustSent()
    if (isStale && this.#parts !== null && !this.#retried && !this.#signal.aborted) return this.#retry(this.#parts)
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
    this.#timer.cancel()
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#parts = null
  }

  firstByteIsHere(): void {
    if (this.#sink === null) this.#timer.cancel()
  }

  wakeIn(ms: number): void {
    this.#timer.limit(ms)
  }

  passTo(sink: BodySink): PendingBody {
    this.#sink = sink
    this.#handler = null
    const pending = {
      pieces: this.#queue?.takeAll() ?? [],
      read: this.#currentRead,
      ended: this.#ended,
      failure: this.#failure,
    }
    this.#currentRead = null
    this.resume()
    return pending
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
  firstBytes(): Buffer {
    if (this.#queue !== null || this.#currentRead === null)
      return Buffer.concat([...(this.#queue?.pieces ?? []), ...this.#payload()])
    const { ranges } = this.framing!
    if (ranges.length === 0) return this.#currentRead.bytes.subarray(0, 0)
    const first = this.#currentRead.bytes.subarray(ranges[0]!, ranges[1]!)
    // A chunk usually is one event.
    return first[first.length - 1] === 10 ? first : Buffer.concat(this.#payload())
  }

  #startOn({ request, text, connections }: EngineRequestParts, fresh: boolean): EngineConnection {
    const connection = connections.take(fresh)
    const leftMs = this.#firstByteBy - this.#sentAt
    this.wakeIn(connection.connecting ? Math.min(leftMs, request.connectMs) : leftMs)
    this.#sentStalled = stalledMs()
    connection.use(this, text, request.body)
    return connection
  }

  /** Whether the engine can have closed the connection before it got the request. */
  #isJustSent(): boolean {
    const stalled = stalledMs() - this.#sentStalled
    return performance.now() - this.#sentAt - stalled <= STALE_CONNECTION_MS
  }

  #retry(parts: EngineRequestParts): void {
    this.#retried = true
    this.#sentAt = performance.now()
    this.#connection = this.#startOn(parts, true)
  }

  #hasContent(bytes: Buffer, { ranges, ended }: BodyFraming): boolean {
    const { start } = this.#answer!
    let isOver = false
    for (let i = 0; i < ranges.length && !start.hasOutput; i += 2)
      if (start.take(bytes, ranges[i]!, ranges[i + 1]!)) isOver = true
    if (ended) start.end()
    return ended || isOver
  }

  #begin(read: BodyRead, framing: BodyFraming): void {
    const handler = this.#handler!
    this.#handler = null
    this.#timer.cancel()
    this.#currentRead = read
    handler.firstByte(this.#answer!, false)
    // No sink took it in this tick: queued for a reader.
    if (this.#currentRead === null) return
    this.#currentRead = null
    if (this.#failure === null) this.#keep(read.bytes, framing)
  }

  #onTimeout(): void {
    if (this.#sink !== null) return this.#sink.due(this.#timer.stalledMs)
    const extensionMs = this.#timer.extend()
    this.#firstByteBy += extensionMs
    if (extensionMs > 0) return
    const leftMs = this.firstByteInMs
    if (leftMs <= 0)
      return this.stop(new OriginError('first_byte_timeout', `no byte of a body from ${this.#host} in time`))
    if (this.framing === null && this.#connection.connecting)
      return this.stop(new OriginError('connect_timeout', `no connection to ${this.#host} in time`))
    // The early limit has expired: the caller continues without a first byte.
    const early = this.framing === null ? null : this.#handler
    this.wakeIn(leftMs)
    if (early === null) return
    this.#handler = null
    early.firstByte(this.#answer!, true)
  }

  #unconnected(error: NodeJS.ErrnoException | null): void {
    const isOwn = OWN_LIMITS.has(error?.code)
    const parts = this.#parts
    if (isOwn && parts !== null && !this.#retried && !this.#signal.aborted && parts.connections.freeDescriptors())
      return this.#retry(parts)
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
    else this.#answer.abandon(reason)
  }

  /** Queues the payload of a read, without framing, as one piece. */
  #keep(bytes: Buffer, framing: BodyFraming): void {
    if (framing.ranges.length === 0) return
    this.#currentRead = { bytes, last: false, whole: false }
    // A copy: the connection reuses the memory.
    const payload = Buffer.concat(this.#payload())
    this.#currentRead = null
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
    if (this.#currentRead !== null)
      for (let i = 0; i < ranges.length; i += 2)
        pieces.push(this.#currentRead.bytes.subarray(ranges[i]!, ranges[i + 1]!))
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
    this.#answer?.start.end()
    const handler = this.#handler
    this.#handler = null
    handler?.firstByte(this.#answer!, false)
    this.#queue?.end()
  }

  #fail(reason: unknown): void {
    this.#failure = reason
    const handler = this.#handler
    this.#handler = null
    if (this.#sink !== null) return this.#sink.broken(reason)
    if (handler === null) return this.#queue?.fail(reason)
    this.release()
    handler.failed(reason)
  }
}
