/** An answer on Workers: read in JS as far as somebody must, piped natively from there. */
import { ABORT_DELAY_MS, cutError } from '../../origin/relay/pull-relay.ts'
import { PullAnswer, type AnswerHead, type AnswerLimits, type ByteSource } from '../../origin/relay/pull-answer.ts'
import { headersInit } from '../../origin/headers.ts'
import { ResponseIdFinder } from '../../origin/relay/sse.ts'
import { defaultTimers } from '../../origin/timers.ts'
import { OriginError, type Timer, type RelayResult, type RelayOptions } from '../../ports.ts'
import type { UpstreamGuard } from './upstream-guard.ts'

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

/** A lock that is released rejects its `closed` with an error. Nobody reads it, and to write down its stack is most of what it costs. */
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
    // Before the first byte somebody must watch for it and send heartbeats; that is the pulled pipe's work.
    const native = this.sse && !reply.observe && !reply.hideUsage && this.held.length > 0 && !this.ended && this.bodied
    if (!native || !foundIn(this.held, reply.onResponseId)) return super.pass(reply)
    const { readable, writable } = new IdentityTransformStream()
    const work = new NativePipe(this.#source, reply, this.#watch).run(this.held, writable)
    reply.scope.background(work)
    return new Response(readable, { status: reply.status, headers: headersInit(reply.headers) })
  }
}

/** Reports the id of a stored response in `held`. false: it may come later, so the bytes behind must be read. */
function foundIn(held: readonly Uint8Array[], onResponseId: RelayOptions['onResponseId']): boolean {
  if (onResponseId === undefined) return true
  let found: string | null = null
  const finder = new ResponseIdFinder((id) => (found = id))
  for (const chunk of held) finder.take(chunk)
  if (found !== null) onResponseId(found)
  return !finder.looks
}

/** A blank line: ends an event, says nothing between two. */
const BLANK = new Uint8Array([10, 10])
/** How long a client that does not read may keep a broken engine's booking. */
const LAST_WORDS_MS = 2_000

/** workerd copies the bytes; JS is woken when the body has ended, one way or another. */
class NativePipe {
  readonly #source: ReaderSource
  readonly #reply: RelayOptions
  readonly #watch: UpstreamGuard
  readonly #lapse: Timer | null
  #bytes = 0
  #lapsed = false

  constructor(source: ReaderSource, reply: RelayOptions, watch: UpstreamGuard) {
    this.#source = source
    this.#reply = reply
    this.#watch = watch
    const { nativeMs, scope } = reply
    this.#lapse = nativeMs === undefined ? null : (scope.alarms ?? defaultTimers).set(nativeMs, () => this.#lapses())
  }

  async run(held: readonly Uint8Array[], writable: WritableStream<Uint8Array>): Promise<void> {
    const writer = writable.getWriter()
    for (const chunk of held) {
      this.#bytes += chunk.length
      // Not waited for, since each wait costs a turn of JS: a write that fails fails the pipe behind it too.
      writer.write(chunk).catch(() => {})
    }
    unlock(writer)
    try {
      // Neither end may break the other: only so can it be told which of them did.
      await this.#source.rest().pipeTo(writable, { preventAbort: true, preventCancel: true })
    } catch (error) {
      return this.#broken(this.#source.failure?.reason ?? error, writable.getWriter())
    }
    // A pipe to a client that left may call itself done.
    if (this.#watch.clientGone) return this.#gone()
    this.#settle('complete', null)
  }

  async #broken(reason: unknown, writer: WritableStreamDefaultWriter<Uint8Array>): Promise<void> {
    // Nobody read where the last event ended, so a blank line ends it. A client that left refuses even that.
    const there = await within(LAST_WORDS_MS, writer.write(BLANK))
    if (this.#watch.clientGone || !there) {
      writer.abort(cutError()).catch(() => {})
      return this.#gone()
    }
    const failure = reason instanceof OriginError ? reason.failure : 'reset'
    this.#settle('engine_cut', failure)
    await within(LAST_WORDS_MS, writer.write(this.#reply.cutEvent(failure)))
    await new Promise((resolve) => setTimeout(resolve, ABORT_DELAY_MS))
    await writer.abort(cutError()).catch(() => {})
  }

  #gone(): void {
    this.#source.stop(new OriginError('reset', 'the client is gone'))
    this.#settle('client_gone', null)
  }

  /** An engine that hangs behind a client that left would keep its booking for ever, where the runtime tells of neither. */
  #lapses(): void {
    this.#lapsed = true
    this.#tell('lapsed', null)
  }

  #settle(end: RelayResult['end'], failure: RelayResult['failure']): void {
    this.#lapse?.cancel()
    this.#watch.over()
    if (!this.#lapsed) this.#tell(end, failure)
  }

  #tell(end: RelayResult['end'], failure: RelayResult['failure']): void {
    this.#reply.settled({ end, failure, events: 0, usage: null, bytes: this.#bytes })
  }
}

/** Did the work succeed in time? Never rejects. */
function within(ms: number, work: Promise<void>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms)
    work
      .then(
        () => resolve(true),
        () => resolve(false),
      )
      .finally(() => clearTimeout(timer))
  })
}
