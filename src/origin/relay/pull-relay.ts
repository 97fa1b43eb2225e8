/** Moves a body to the client piece by piece, as the client reads it. */
import { type BodyReader, OriginError } from '../../ports/origin.ts'
import type { RelayOptions, RelayResult } from '../../ports/relay.ts'
import type { Timer, Timers } from '../../ports/timers.ts'
import { defaultTimers } from '../../timers.ts'
import { IdleTimer } from '../idle-timer.ts'
import { HEARTBEAT } from '../../protocols/stream/event.ts'
import type { AnswerStart } from './answer-start.ts'
import { errorEventSent, truncationError } from './broken-end.ts'
import { RelayController } from './relay-controller.ts'

interface PullRelayParts {
  readonly options: RelayOptions
  readonly sse: boolean
  /** Absent: true. */
  readonly reads?: boolean
  /** null: the body has no beginning that was judged. */
  readonly start: AnswerStart | null
  /** Bytes that were read before the relay starts. */
  readonly held: readonly Uint8Array[]
  /** `held` is the whole body. */
  readonly ended: boolean
  readonly now: () => number
  next(): Promise<Uint8Array | null>
  stop(reason: unknown): void
}

export class PullRelay implements BodyReader {
  readonly #parts: PullRelayParts
  readonly #control: RelayController
  readonly #timers: Timers
  /** Runs while the client does not read. */
  readonly #unread: IdleTimer
  /** For the client: at most what one read of the engine gave. */
  readonly #out: Uint8Array[] = []
  readonly #emit = (piece: Uint8Array): void => void this.#out.push(piece)
  /** Of the stream; null: the body is read. */
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null
  #isReading = false
  /** Ends the wait for the engine; `true`: with a heartbeat. */
  #wake: ((isSilent: boolean) => void) | null = null
  #timer: Timer | null = null
  #timerAt = 0
  #ended = false
  /** Why the engine's body ended early; null: it did not. */
  #broken: unknown = null

  constructor(parts: PullRelayParts) {
    const { options, sse, start, reads = true } = parts
    this.#parts = parts
    this.#control = new RelayController(options, { sse, reads, hidesUsage: options.hideUsage, start })
    this.#timers = options.scope.timers ?? defaultTimers
    const clock = { now: parts.now, timers: this.#timers }
    this.#unread = new IdleTimer(clock, options.writeMs ?? 0, () => this.clientGone())
    for (const chunk of parts.held) this.#control.take(chunk, this.#emit)
    if (parts.ended) this.#end()
    this.#unread.listen()
  }

  /** The body as a stream. Call it once, in place of `read`. */
  stream(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.#controller = controller),
        pull: async (controller) => {
          const piece = await this.read()
          if (piece === null) controller.close()
          else controller.enqueue(piece)
        },
        cancel: () => this.cancel(),
      },
      { highWaterMark: 0 },
    )
  }

  /** One call, one piece: the client's pace is the engine's pace. */
  async read(): Promise<Uint8Array | null> {
    this.#unread.pause()
    const piece = await this.#next()
    this.#unread.listen()
    return piece
  }

  cancel(): void {
    this.clientGone()
  }

  /** Ends the relay: the client has disconnected. */
  clientGone(): void {
    if (this.#control.settled) return
    this.#parts.stop(new OriginError('reset', 'the client has disconnected'))
    // It may disconnect as soon as it has the whole body, before the relay sees the end.
    this.#settle(this.#ended && this.#out.length === 0 ? 'complete' : 'client_gone')
    this.#error(truncationError())
  }

  async #next(): Promise<Uint8Array | null> {
    for (;;) {
      const piece = this.#out.shift()
      if (piece !== undefined) return piece
      if (this.#ended) {
        this.#settle('complete')
        return null
      }
      if (this.#broken !== null) return this.#truncate()
      if (this.#control.settled) throw truncationError()
      if ((await this.#wait()) && !this.#control.settled) return HEARTBEAT
    }
  }

  /** Waits for the engine. true: a heartbeat is due, nothing has come. */
  #wait(): Promise<boolean> {
    if (this.#control.canBeat) this.#control.beat(this.#parts.now())
    if (this.#isReading) this.#arm()
    else void this.#read()
    return new Promise((resolve) => (this.#wake = resolve))
  }

  async #read(): Promise<void> {
    this.#isReading = true
    this.#control.active(this.#parts.now())
    this.#arm()
    try {
      const chunk = await this.#parts.next()
      if (chunk === null) this.#end()
      else this.#control.take(chunk, this.#emit)
    } catch (error) {
      this.#broken = error instanceof OriginError ? this.#control.endBroken(error, this.#emit) : error
      this.#ended = this.#broken === null
    }
    this.#isReading = false
    this.#wake?.(false)
  }

  #end(): void {
    this.#broken = this.#control.end(this.#emit)
    this.#ended = this.#broken === null
  }

  /** Sets the timer for the next check. Bytes that come do not move it. */
  #arm(): void {
    const now = this.#parts.now()
    const inMs = this.#control.checkInMs(now)
    if (inMs === Infinity || this.#control.settled) return
    if (this.#timer !== null) {
      if (now + inMs >= this.#timerAt) return
      this.#timer.cancel()
    }
    this.#timerAt = now + inMs
    this.#timer = this.#timers.set(Math.max(0, inMs), () => this.#due())
  }

  /** Silence counts only while the relay waits for the engine. */
  #due(): void {
    this.#timer = null
    if (!this.#isReading || this.#control.settled) return
    const now = this.#parts.now()
    const decision = this.#control.check(now, now - this.#timerAt)
    if (decision instanceof OriginError) return this.#parts.stop(decision)
    if (decision === 'heartbeat') this.#wake?.(true)
    this.#arm()
  }

  /** Sends one error event where an event may start, then breaks the connection. Never a clean end. */
  async #truncate(): Promise<Uint8Array> {
    const error = this.#broken
    if (!(error instanceof OriginError)) {
      this.clientGone()
      throw truncationError()
    }
    if (!this.#control.settled) {
      const event = this.#control.truncate(error.failure, true)
      this.#stopTimers()
      if (event !== null) return event
    }
    if (this.#parts.options.truncationEvent !== undefined) await errorEventSent(this.#parts.options.scope)
    throw truncationError()
  }

  #settle(end: RelayResult['end']): void {
    this.#stopTimers()
    this.#control.settle(end)
  }

  #stopTimers(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#unread.stop()
  }

  #error(error: unknown): void {
    try {
      this.#controller?.error(error)
    } catch {
      // The stream is closed or cancelled already.
    }
  }
}
