/** Calls engines with fetch. Bytes pass natively unless the gateway must read them. */
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
import { defaultTimers, patientTimers } from '../../origin/timers.ts'
import { RelayController } from '../../origin/relay/controller.ts'
import { ABORT_DELAY_MS, cutError } from '../../origin/relay/pull-relay.ts'
import { PullAnswer, type AnswerHead, type AnswerLimits, type ByteSource } from '../../origin/relay/pull-answer.ts'
import { ResponseIdFinder } from '../../origin/relay/sse.ts'
import { withTimeout } from '../../timeout.ts'

/* A response on Workers: read in JavaScript as far as needed, then copied by workerd. */

interface Stopped {
  readonly reason: unknown
}

/** A fetched body, read piece by piece, or passed on whole for a native pipe. */
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

  /** Why the body ended early. null: it did not. */
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
 * Releases a lock. Its `closed` then rejects with an error that nothing reads, so no stack is recorded: the stack is
 * most of the cost.
 */
export function unlock(lock: { releaseLock(): void }): void {
  const errors: { stackTraceLimit?: number | undefined } = Error as object
  const { stackTraceLimit } = errors
  errors.stackTraceLimit = 0
  try {
    lock.releaseLock()
  } finally {
    errors.stackTraceLimit = stackTraceLimit
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
    // Before the first byte, the pull relay watches for it and sends heartbeats. A pending read holds the body's lock.
    const isBegun = this.held.length > 0 && !this.reading
    const native = this.sse && !reply.observe && !reply.hideUsage && isBegun && !this.ended && this.bodied
    if (!native || (reply.onResponseId !== undefined && mayFollow(this.held))) return super.pass(reply)
    const { readable, writable } = new IdentityTransformStream()
    const work = new NativeRelay(this.#source, reply, this.#watch).run(this.held, writable)
    reply.scope.background(work)
    return new Response(readable, { status: reply.status, headers: headersInit(reply.headers) })
  }
}

/** The id of a stored response may come after `held`, so the following bytes must be read. */
function mayFollow(held: readonly Uint8Array[]): boolean {
  const finder = new ResponseIdFinder(() => {})
  for (const chunk of held) finder.take(chunk)
  return finder.looks
}

/** Blank line: ends an incomplete event, and has no effect between two events. */
const BLANK = new Uint8Array([10, 10])
/**
 * Limit for the last writes to a client after the engine broke, ms: a client that does not read must not hold the
 * booking.
 */
const LAST_WRITE_MS = 2_000

/** workerd copies the bytes; JavaScript runs again when the body ends or fails. */
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
    // workerd reports neither an engine that hangs nor its client's disconnect, so the booking needs a limit.
    const lapse = () => this.#control.settle('lapsed')
    this.#lapse = nativeMs === undefined ? null : (scope.alarms ?? defaultTimers).set(nativeMs, lapse)
  }

  async run(held: readonly Uint8Array[], writable: WritableStream<Uint8Array>): Promise<void> {
    const writer = writable.getWriter()
    for (const chunk of held) {
      // Not awaited, because each wait costs a turn of JavaScript. A failed write also fails the following pipe.
      this.#control.take(chunk, (piece) => void writer.write(piece).catch(() => {}))
    }
    unlock(writer)
    try {
      // Neither end may abort the other; otherwise the side that failed would be unknown.
      await this.#source.rest().pipeTo(writable, { preventAbort: true, preventCancel: true })
    } catch (error) {
      return this.#broken(this.#source.failure?.reason ?? error, writable.getWriter())
    }
    // A pipe to a disconnected client may resolve as if it were complete.
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

/** A response whose head has arrived. */
interface Answered {
  /** The first byte did not come in time. */
  late(reason: OriginError): void
  /** The client disconnected, or the gateway gave up. */
  gone(reason: unknown): void
}

/**
 * Aborts a call to an engine when the client disconnects or the limit for the first byte passes. One listener and one
 * alarm per call.
 */
export class UpstreamGuard {
  /** Aborts the fetch. */
  readonly controller = new AbortController()
  readonly #signal: OriginRequest['signal']
  readonly #alarm: Timer
  #answer: Answered | null = null
  #isOver = false

  constructor({ signal, firstByteMs, target, alarms = defaultTimers }: OriginRequest, now: () => number) {
    this.#signal = signal
    signal.addEventListener('abort', () => this.#gone())
    this.#alarm = patientTimers(alarms, now).set(firstByteMs, () => {
      const reason = new OriginError('first_byte_timeout', `no first byte from ${target.url} within ${firstByteMs} ms`)
      if (this.#answer === null) this.controller.abort(reason)
      else this.#answer.late(reason)
    })
  }

  /** The client disconnected, or the gateway gave up. */
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

  /** The listener stays until its request ends, because removing it costs more. */
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
  /** Bindings for fetching from engines, by name (VPC, mTLS, another Worker). */
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
        // The engine closed an idle connection just as it was used. It did no work, so one retry is safe.
        const stale = error instanceof OriginError && error.failure === 'reset' && now() - call.startedAt <= STALE_MS
        if (stale && !request.signal.aborted) return send(call)
        throw error
      }
    },
  }
}

/** A connection that fails within this time, ms, was most likely an idle one that the engine had closed. */
const STALE_MS = 500

interface Call {
  readonly request: OriginRequest
  readonly ask: Fetch
  readonly now: () => number
  readonly startedAt: number
}

/** Fails as `connect` if the Worker does not have the binding that the configuration names. */
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
  const watch = new UpstreamGuard(request, now)
  const { controller } = watch
  try {
    const response = await ask(request.target.url + request.path, {
      method: request.method,
      headers: headersInit(headersForTarget(request.headers, request.target)),
      body: bodyOf(request),
      // A redirect would send the client's prompt to an address that is not configured.
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
    // The gateway's own abort reason instead of fetch's error.
    if (controller.signal.aborted) throw controller.signal.reason
    throw originErrorOf(error, request.target)
  }
}

function bodyOf({ method, body }: OriginRequest): BodyInit | null {
  if (body === null) return method === 'POST' ? new Uint8Array(0) : null
  // A single piece has a known length; a stream of pieces would be sent chunked.
  return body.length === 1 ? (body[0] as Uint8Array<ArrayBuffer>) : new Blob(body as Uint8Array<ArrayBuffer>[])
}

/** workerd has one error for nearly all connection failures, including refusals. Only an unresolvable name differs. */
function originErrorOf(cause: unknown, target: EngineTarget): OriginError {
  const text = String(cause)
  const failure = /internal error|resolve|DNS/i.test(text) ? 'connect' : 'reset'
  return new OriginError(failure, `${target.url} could not be asked: ${text}`, { cause })
}
