/** Engines over fetch: bytes pass natively unless somebody must read them. */
import { headersForTarget, headersInit, headersOfAnswer } from '../../origin/headers.ts'
import {
  OriginError,
  type EngineTarget,
  type Origin,
  type OriginAnswer,
  type OriginRequest,
  type Timer,
  type RelayOptions,
} from '../../ports.ts'
import { defaultTimers } from '../../origin/timers.ts'
import { RelayController } from '../../origin/relay/controller.ts'
import { ABORT_DELAY_MS, cutError } from '../../origin/relay/pull-relay.ts'
import { PullAnswer, type AnswerHead, type AnswerLimits, type ByteSource } from '../../origin/relay/pull-answer.ts'
import { ResponseIdFinder } from '../../origin/relay/sse.ts'
import { withTimeout } from '../../timeout.ts'

/* A response on Workers: read in JavaScript as far as needed, then copied by workerd. */

interface Stopped {
  readonly reason: unknown
}

/** A fetched body, pulled; or handed over whole to be piped natively. */
export class ReaderSource implements ByteSource {
  readonly #controller: AbortController
  #body: ReadableStream<Uint8Array> | null
  #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  #failure: Stopped | null = null
  #ended = false

  constructor(body: ReadableStream<Uint8Array> | null, controller: AbortController) {
    this.#body = body
    this.#controller = controller
    this.#ended = body === null
  }

  async read(): Promise<Uint8Array | null> {
    this.#throwIfStopped()
    if (this.#ended) return null
    this.#reader ??= this.#body!.getReader()
    try {
      const { done, value } = await this.#reader.read()
      this.#throwIfStopped()
      if (!done) return value
      this.#ended = true
      return null
    } catch (error) {
      throw this.#brokenBy(error)
    }
  }

  #throwIfStopped(): void {
    if (this.#failure !== null) throw this.#failure.reason
  }

  #brokenBy(error: unknown): unknown {
    this.#failure ??= { reason: new OriginError('reset', `the engine broke off: ${String(error)}`, { cause: error }) }
    return this.#failure.reason
  }

  stop(reason: unknown): void {
    if (this.#ended || this.#failure !== null) return
    this.#failure = { reason: reason ?? new Error('stopped') }
    this.#controller.abort(reason)
  }

  /** Why it ended early; null while all is well. */
  get failure(): Stopped | null {
    return this.#failure
  }

  /** The rest of the body, for a native pipe. No `read` may follow. */
  rest(): ReadableStream<Uint8Array> {
    if (this.#reader !== null) unlock(this.#reader)
    this.#reader = null
    return this.#body!
  }
}

/**
 * A lock that is released rejects its `closed` with an error. Nobody reads it, and to write down its stack is most of
 * what it costs.
 */
export function unlock(lock: { releaseLock(): void }): void {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    lock.releaseLock()
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

export class FetchedAnswer extends PullAnswer {
  readonly #source: ReaderSource
  readonly #watch: UpstreamGuard

  constructor(
    head: AnswerHead,
    source: ReaderSource,
    { watch, ...limits }: AnswerLimits & { readonly watch: UpstreamGuard },
  ) {
    super(head, source, limits)
    this.#source = source
    this.#watch = watch
    watch.answered({ late: (reason) => source.stop(reason), gone: (reason) => this.gone(reason) })
  }

  protected override firstByteIsHere(): void {
    this.#watch.firstByteIsHere()
  }

  protected override release(): void {
    this.#watch.over()
  }

  override pass(reply: RelayOptions): Response {
    // Before the first byte, the pull relay watches for it and sends heartbeats.
    const native = this.sse && !reply.observe && !reply.hideUsage && this.held.length > 0 && !this.ended && this.bodied
    if (!native || (reply.onResponseId !== undefined && mayFollow(this.held))) return super.pass(reply)
    const { readable, writable } = new IdentityTransformStream()
    const work = new NativeRelay(this.#source, reply, this.#watch).run(this.held, writable)
    reply.scope.background(work)
    return new Response(readable, { status: reply.status, headers: headersInit(reply.headers) })
  }
}

/** The id of a stored response may come after `held`, so the bytes behind must be read. */
function mayFollow(held: readonly Uint8Array[]): boolean {
  const finder = new ResponseIdFinder(() => {})
  for (const chunk of held) finder.take(chunk)
  return finder.looks
}

/** A blank line: ends an incomplete event, and has no effect between two events. */
const BLANK = new Uint8Array([10, 10])
/**
 * Limit for the last writes to a client after the engine broke, ms: a client that does not read must not hold the
 * booking.
 */
const LAST_WRITE_MS = 2_000

/** workerd copies the bytes; JavaScript runs again when the body has ended or broken. */
class NativeRelay {
  readonly #source: ReaderSource
  readonly #control: RelayController
  readonly #watch: UpstreamGuard
  readonly #lapse: Timer | null

  constructor(source: ReaderSource, reply: RelayOptions, watch: UpstreamGuard) {
    this.#source = source
    this.#control = new RelayController(reply, { sse: true, reads: false, strips: false })
    this.#watch = watch
    const { nativeMs, scope } = reply
    // An engine that hangs after its client left would hold the booking: workerd reports neither.
    const lapse = () => this.#control.settle('lapsed')
    this.#lapse = nativeMs === undefined ? null : (scope.alarms ?? defaultTimers).set(nativeMs, lapse)
  }

  async run(held: readonly Uint8Array[], writable: WritableStream<Uint8Array>): Promise<void> {
    const writer = writable.getWriter()
    for (const chunk of held) {
      // Not awaited, because each wait costs a turn of JavaScript. A write that fails also fails the pipe behind it.
      this.#control.take(chunk, (piece) => void writer.write(piece).catch(() => {}))
    }
    unlock(writer)
    try {
      // Neither end may break the other, or the side that failed would be unknown.
      await this.#source.rest().pipeTo(writable, { preventAbort: true, preventCancel: true })
    } catch (error) {
      return this.#broken(this.#source.failure?.reason ?? error, writable.getWriter())
    }
    // A pipe to a client that left may resolve as if it were complete.
    if (this.#watch.clientGone) return this.#gone()
    this.#release()
    this.#control.settle('complete')
  }

  async #broken(reason: unknown, writer: WritableStreamDefaultWriter<Uint8Array>): Promise<void> {
    // The end of the last event is unknown, so a blank line ends it. The write fails if the client has left.
    const isConnected = (await withTimeout(LAST_WRITE_MS, writer.write(BLANK))) !== null
    if (this.#watch.clientGone || !isConnected) {
      writer.abort(cutError()).catch(() => {})
      return this.#gone()
    }
    this.#release()
    const event = this.#control.truncate(reason instanceof OriginError ? reason.failure : 'reset', true)
    if (event !== null) await withTimeout(LAST_WRITE_MS, writer.write(event))
    await new Promise((resolve) => setTimeout(resolve, ABORT_DELAY_MS))
    await writer.abort(cutError()).catch(() => {})
  }

  #gone(): void {
    this.#source.stop(new OriginError('reset', 'the client is gone'))
    this.#release()
    this.#control.settle('client_gone')
  }

  #release(): void {
    this.#lapse?.cancel()
    this.#watch.over()
  }
}

/** An answer that has a head. */
interface Answered {
  /** Its first byte did not come in time. */
  late(reason: OriginError): void
  /** Nobody wants it any more. */
  gone(reason: unknown): void
}

/**
 * What may break off a request to an engine: the client, and the limit for the first byte. One listener and one alarm,
 * from its start to its end.
 */
export class UpstreamGuard {
  /** Breaks off the fetch. */
  readonly controller = new AbortController()
  readonly #signal: OriginRequest['signal']
  readonly #alarm: Timer
  #answer: Answered | null = null
  #isOver = false

  constructor({ signal, firstByteMs, target, alarms = defaultTimers }: OriginRequest) {
    this.#signal = signal
    signal.addEventListener('abort', () => this.#gone())
    this.#alarm = alarms.set(firstByteMs, () => {
      const reason = new OriginError('first_byte_timeout', `no first byte from ${target.url} within ${firstByteMs} ms`)
      if (this.#answer === null) this.controller.abort(reason)
      else this.#answer.late(reason)
    })
  }

  /** The client left, or the gateway has given up. */
  get clientGone(): boolean {
    return this.#signal.aborted
  }

  answered(answer: Answered): void {
    this.#answer = answer
    if (this.#signal.aborted) this.#gone()
  }

  firstByteIsHere(): void {
    this.#alarm.cancel()
  }

  /** The listener goes with its request: to take it off costs more than to leave it. */
  over(): void {
    this.#alarm.cancel()
    this.#isOver = true
  }

  #gone(): void {
    if (this.#isOver) return
    if (this.#answer === null) this.controller.abort(this.#signal.reason)
    else this.#answer.gone(this.#signal.reason)
  }
}

export interface WorkersOriginOptions {
  /** Epoch milliseconds; on Workers it moves only with I/O. */
  readonly now?: () => number
  /** Bindings engines can be fetched through, by name (VPC, mTLS, another Worker). */
  readonly bindings?: Readonly<Record<string, unknown>>
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>

export function workersOrigin(options: WorkersOriginOptions = {}): Origin {
  const now = options.now ?? Date.now
  return {
    async send(request: OriginRequest): Promise<OriginAnswer> {
      if (request.signal.aborted) throw request.signal.reason
      const ask = fetcherOf(request.target, options.bindings ?? {})
      const call = { request, ask, now, startedAt: now() }
      try {
        return await send(call)
      } catch (error) {
        // An idle connection that the engine closed as it was taken: no work was begun, so it may be tried once more.
        const stale = error instanceof OriginError && error.failure === 'reset' && now() - call.startedAt <= STALE_MS
        if (stale && !request.signal.aborted) return send(call)
        throw error
      }
    },
  }
}

/** A connection that breaks this soon was most likely a stale one. */
const STALE_MS = 500

interface Call {
  readonly request: OriginRequest
  readonly ask: Fetch
  readonly now: () => number
  readonly startedAt: number
}

/** Fails as `connect` when the config names a binding the Worker does not have: the engine cannot be reached. */
function fetcherOf(target: EngineTarget, bindings: Readonly<Record<string, unknown>>): Fetch {
  if (target.binding === null) return (url, init) => fetch(url, init)
  const binding = bindings[target.binding] as { fetch?: unknown } | undefined
  if (typeof binding?.fetch !== 'function') {
    throw new OriginError(
      'connect',
      `engine ${target.id} asks for the binding ${target.binding}, which this Worker does not have`,
    )
  }
  const fetcher = binding as { fetch: Fetch }
  return (url, init) => fetcher.fetch(url, init)
}

async function send({ request, ask, now }: Call): Promise<OriginAnswer> {
  const watch = new UpstreamGuard(request)
  const { controller } = watch
  try {
    const response = await ask(request.target.url + request.path, {
      method: request.method,
      headers: headersInit(headersForTarget(request.headers, request.target)),
      body: bodyOf(request),
      // An engine that redirects would move the client's prompt to an address nobody configured.
      redirect: 'manual',
      signal: controller.signal,
    })
    const raw: string[] = []
    response.headers.forEach((value, name) => raw.push(name, value))
    const headers = headersOfAnswer(raw)
    const source = new ReaderSource(response.body, controller)
    return new FetchedAnswer({ status: response.status, headers }, source, { now, watch })
  } catch (error) {
    watch.over()
    // Our own reasons, not what fetch made of them.
    if (controller.signal.aborted) throw controller.signal.reason
    throw originErrorOf(error, request.target)
  }
}

function bodyOf({ method, body }: OriginRequest): BodyInit | null {
  if (body === null) return method === 'POST' ? new Uint8Array(0) : null
  // One piece has a length; a stream of pieces would be sent chunked.
  return body.length === 1 ? (body[0] as Uint8Array<ArrayBuffer>) : new Blob(body as Uint8Array<ArrayBuffer>[])
}

/**
 * workerd has one error for nearly every way a connection can fail, refused ones too; only a name it cannot resolve
 * differs.
 */
function originErrorOf(cause: unknown, target: EngineTarget): OriginError {
  const text = String(cause)
  const failure = /internal error|resolve|DNS/i.test(text) ? 'connect' : 'reset'
  return new OriginError(failure, `${target.url} could not be asked: ${text}`, { cause })
}
