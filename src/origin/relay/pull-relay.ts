/** Passes a body to the client piece by piece as the client asks for it, and sees to it that it ends exactly once. */
import type { AttemptFailure } from '../../core/contract/contract.ts'
import { OriginError, type RelayResult, type RelayOptions } from '../../ports.ts'
import { LeadingComments, ResponseIdFinder } from './sse.ts'
import { IdleTimer } from '../timers.ts'
import { openTap, type Tap } from './tap.ts'

export interface PipeParts {
  readonly reply: RelayOptions
  readonly sse: boolean
  /** Bytes that came before the pipe was opened. */
  readonly held: readonly Uint8Array[]
  /** …and they are all there are. */
  readonly ended: boolean
  readonly now: () => number
  next(): Promise<Uint8Array | null>
  stop(reason: unknown): void
}

export interface Pipe {
  readonly stream: ReadableStream<Uint8Array>
  /** The client left, seen by other means than the stream's own cancel. */
  clientGone(): void
}

/** An SSE comment: clients drop it, proxies and sockets see life. */
const PING = new Uint8Array([58, 32, 112, 105, 110, 103, 10, 10])
/**
 * Between the error event and the cut: adapters write to the socket a turn of the loop later,
 * and destroying it before would take the event along.
 */
export const ABORT_DELAY_MS = 20

export function openPipe(parts: PipeParts): Pipe {
  const pump = new PullRelay(parts)
  return { stream: pump.stream, clientGone: () => pump.clientGone() }
}

class PullRelay {
  readonly stream: ReadableStream<Uint8Array>
  readonly #parts: PipeParts
  readonly #tap: Tap
  readonly #finder: ResponseIdFinder | null
  readonly #prelude = new LeadingComments()
  readonly #idle: IdleTimer
  readonly #heartbeat: IdleTimer
  /** Runs while nobody asks for the next piece. */
  readonly #unread: IdleTimer
  /** Ready for the client: at most what one read of the engine gave. */
  readonly #out: Uint8Array[]
  readonly #emit: (piece: Uint8Array) => void
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null
  #reading: Promise<void> | null = null
  #beat: (() => void) | null = null
  #started: boolean
  #ended = false
  #settled = false
  #bytes = 0
  #steps = 0
  /** Set when the engine broke: what the client gets before the cut. */
  #broken: unknown = null

  constructor(parts: PipeParts) {
    const { reply } = parts
    this.#parts = parts
    this.#tap = openTap(parts.sse, reply.hideUsage)
    this.#finder = ResponseIdFinder.for(reply.onResponseId)
    this.#out = []
    this.#emit = (piece) => void this.#out.push(piece)
    this.#started = parts.ended || parts.held.some((chunk) => !parts.sse || this.#prelude.hasContent(chunk))
    this.#idle = new IdleTimer(parts.now, reply.idleMs, () =>
      parts.stop(new OriginError('idle_timeout', `no byte for ${reply.idleMs} ms`)),
    )
    this.#heartbeat = new IdleTimer(parts.now, parts.sse ? reply.heartbeatMs : 0, () => this.#beat?.())
    this.#unread = new IdleTimer(parts.now, reply.writeMs ?? 0, () => this.clientGone())
    for (const chunk of parts.held) this.#take(chunk)
    if (parts.ended) this.#end()
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.#controller = controller),
        pull: () => {
          this.#unread.heard()
          return this.#pull().then(() => this.#unread.listen())
        },
        cancel: () => this.clientGone(),
      },
      { highWaterMark: 0 },
    )
    this.#unread.listen()
  }

  clientGone(): void {
    if (this.#settled) return
    this.#parts.stop(new OriginError('reset', 'the client is gone'))
    // It may leave as soon as it has all there is, a moment before the pipe notices the end.
    this.#settle(this.#ended && this.#out.length === 0 ? 'complete' : 'client_gone', null)
    this.#error(cutError())
  }

  /** One call, one piece: the consumer's pace is the engine's pace. */
  async #pull(): Promise<void> {
    for (;;) {
      const piece = this.#out.shift()
      if (piece !== undefined) return this.#controller!.enqueue(piece)
      if (this.#ended) {
        this.#settle('complete', null)
        return this.#controller!.close()
      }
      if (this.#broken !== null) return this.#cut()
      if (this.#settled) return
      if (await this.#wait()) return this.#controller!.enqueue(PING)
    }
  }

  /** Waits for the engine. true: time for a heartbeat, nothing has come. */
  async #wait(): Promise<boolean> {
    this.#reading ??= this.#read()
    // A comment in the middle of an event would break it.
    if (!this.#parts.sse || this.#parts.reply.heartbeatMs <= 0 || !this.#tap.atBoundary) {
      await this.#reading
      return false
    }
    const beat = new Promise<boolean>((resolve) => (this.#beat = () => resolve(true)))
    this.#heartbeat.listen()
    const silent = await Promise.race([this.#reading.then(() => false), beat])
    this.#heartbeat.heard()
    this.#beat = null
    return silent && !this.#settled
  }

  async #read(): Promise<void> {
    if (this.#started) this.#idle.listen()
    try {
      const chunk = await this.#parts.next()
      if (chunk === null) this.#end()
      else this.#take(chunk)
    } catch (error) {
      this.#broken = error
    } finally {
      this.#idle.heard()
      this.#reading = null
    }
  }

  #take(chunk: Uint8Array): void {
    if (!this.#started && (!this.#parts.sse || this.#prelude.hasContent(chunk))) {
      this.#started = true
      this.#parts.reply.onFirstByte()
    }
    this.#bytes += chunk.length
    this.#finder?.take(chunk)
    this.#tap.take(chunk, this.#emit)
    const { eventStep } = this.#parts.reply
    if (eventStep <= 0 || this.#tap.events < (this.#steps + 1) * eventStep) return
    this.#steps = Math.floor(this.#tap.events / eventStep)
    this.#parts.reply.onEvents(this.#tap.events)
  }

  #end(): void {
    this.#tap.end(this.#emit)
    const { sse, reply } = this.#parts
    if (sse && reply.observe && reply.endsWithDone === true && !this.#tap.done)
      this.#broken = new OriginError('reset', 'the stream ended without [DONE]')
    else this.#ended = true
  }

  /** One error event where an event may stand, then the connection breaks. Never a clean end. */
  async #cut(): Promise<void> {
    const error = this.#broken
    if (!(error instanceof OriginError)) return this.clientGone()
    const first = !this.#settled
    this.#settle('engine_cut', error.failure)
    if (first && this.#parts.sse && this.#tap.atBoundary)
      return this.#controller!.enqueue(this.#parts.reply.cutEvent(error.failure))
    await new Promise((resolve) => setTimeout(resolve, ABORT_DELAY_MS))
    this.#error(cutError())
  }

  #settle(end: RelayResult['end'], failure: AttemptFailure | null): void {
    if (this.#settled) return
    this.#settled = true
    this.#idle.stop()
    this.#heartbeat.stop()
    this.#unread.stop()
    const { events } = this.#tap
    this.#parts.reply.settled({ end, failure, events, usage: this.#tap.usage(), bytes: this.#bytes })
  }

  #error(error: unknown): void {
    try {
      this.#controller?.error(error)
    } catch {
      // Closed or cancelled already: nobody listens.
    }
  }
}

/** What the adapter sees when a stream is cut. It may print it, or worse send it: no address, no stack. */
export function cutError(): Error {
  const error = new Error('the answer was cut')
  error.stack = String(error)
  return error
}
