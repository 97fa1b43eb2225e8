/** An engine's response behind a pull source: the part of `OriginAnswer` that does not depend on the transport. */
import type { EngineError } from '../../protocols/engine-error.ts'
import { type BodyReader, OriginError, type OriginAnswer } from '../../ports/origin.ts'
import type { RelayResult, RelayOptions } from '../../ports/relay.ts'
import { concatBytes } from '../../core/bytes.ts'
import { AnswerStart, type ExpectedAnswer } from './answer-start.ts'
import { headerOf, headersInit, isEventStream, isUnspecific } from '../headers.ts'
import { PullRelay } from './pull-relay.ts'

/** Source of a response's bytes, implemented by the platform. */
export interface ByteSource {
  /**
   * Returns the next bytes; null at a clean end. One call at a time. Rejects with an OriginError, or with the argument
   * of `stop`.
   */
  read(): Promise<Uint8Array | null>
  /** Ends the call to the engine: pending and later reads reject with `reason`. Has effect once. */
  stop(reason: unknown): void
}

export interface AnswerHead {
  readonly status: number
  /** Lower-case, hop-by-hop removed. */
  readonly headers: readonly string[]
}

export interface AnswerLimits {
  readonly now: () => number
  /** What the request expects of its answer. Absent: any answer is good. */
  readonly expected?: ExpectedAnswer
}

const ANY: ExpectedAnswer = { protocol: null, isJson: false, isStream: false }

/** Statuses without a body, whatever the headers say. */
export const BODILESS: ReadonlySet<number> = new Set([101, 103, 204, 205, 304])

/** The platform enforces the limit for the first byte, watches the client, and calls `gone`. */
export class PullAnswer implements OriginAnswer {
  readonly status: number
  readonly headers: readonly string[]
  readonly sse: boolean
  protected readonly source: ByteSource
  protected readonly limits: AnswerLimits
  readonly start: AnswerStart
  /** Bytes that were read and not yet passed on. */
  protected held: Uint8Array[] = []
  protected ended = false
  /** Handles a client disconnect. Set by a response that does not pass through the stream. */
  protected takenOver: { clientGone(): void } | null = null
  /** The read whose result nobody has taken, so that `pass` can continue it. */
  #reading: Promise<Uint8Array | null> | null = null
  #relay: PullRelay | null = null

  constructor(head: AnswerHead, source: ByteSource, limits: AnswerLimits) {
    this.status = head.status
    this.headers = head.headers
    this.source = source
    this.limits = limits
    const expected = limits.expected ?? ANY
    const type = headerOf(head.headers, 'content-type')
    this.sse = isEventStream(type) || (expected.isStream && head.status < 300 && isUnspecific(type))
    this.start = new AnswerStart(this, expected)
  }

  async firstByte(bytes = 0): Promise<void> {
    let heldBytes = 0
    try {
      while (this.#relay === null && this.takenOver === null) {
        const chunk = await this.#pendingRead()
        // `pass` took over during this read, so the chunk belongs to it: the read stays pending for `next`.
        if (this.#relay !== null || this.takenOver !== null) return
        this.#reading = null
        if (chunk === null) {
          this.ended = true
          this.start.end()
          break
        }
        this.held.push(chunk)
        heldBytes += chunk.length
        if (bytes > 0 ? heldBytes >= bytes : this.start.take(chunk)) break
      }
    } catch (error) {
      this.release()
      throw error
    }
    this.firstByteIsHere()
  }

  firstBytes(): Uint8Array {
    return concatBytes(this.held)
  }

  fault(): EngineError | null {
    return this.start.fault(() => this.firstBytes())
  }

  async read(limitBytes: number): Promise<Uint8Array> {
    try {
      let size = 0
      for (const chunk of this.held) size += chunk.length
      for (;;) {
        if (size > limitBytes)
          throw new OriginError('malformed', `the engine's answer is longer than ${limitBytes} bytes`)
        const chunk = this.ended ? null : await this.next()
        if (chunk === null) break
        this.held.push(chunk)
        size += chunk.length
      }
      return concatBytes(this.held, size)
    } finally {
      this.discard()
    }
  }

  /** A read is pending, as after heartbeats that came before the first token. */
  protected get reading(): boolean {
    return this.#reading !== null
  }

  /** Whether this status may have a body. */
  protected get bodied(): boolean {
    return !BODILESS.has(this.status)
  }

  pass(options: RelayOptions): Response {
    const tracked = this.tracked(options)
    if (!this.bodied || (this.ended && this.held.length === 0)) {
      this.source.stop(new OriginError('malformed', 'a body where none is allowed'))
      tracked.settled(completeEnd(0))
      return new Response(null, { status: options.status, headers: headersInit(options.headers) })
    }
    const body = this.#openRelay(tracked).stream()
    return new Response(body, { status: options.status, headers: headersInit(options.headers) })
  }

  reader(options: RelayOptions): BodyReader {
    return this.#openRelay(this.tracked(options))
  }

  #openRelay(options: RelayOptions): PullRelay {
    this.#relay = new PullRelay({
      options,
      sse: this.sse,
      start: this.start,
      held: this.held,
      ended: this.ended,
      now: this.limits.now,
      next: () => this.next(),
      stop: (reason) => this.source.stop(reason),
    })
    return this.#relay
  }

  discard(): void {
    this.release()
    this.source.stop(new OriginError('reset', 'the answer was discarded'))
  }

  /** Reads once at a time. Returns the result of a read that is pending, or whose result nobody has taken. */
  protected async next(): Promise<Uint8Array | null> {
    const reading = this.#pendingRead()
    try {
      return await reading
    } finally {
      if (this.#reading === reading) this.#reading = null
    }
  }

  #pendingRead(): Promise<Uint8Array | null> {
    return (this.#reading ??= this.source.read())
  }

  /** Called when the first byte is here. The platform ends its timer. */
  protected firstByteIsHere(): void {}

  /** Called at the end. The platform removes timers and listeners. */
  protected release(): void {}

  /** Wraps the reply's callbacks with the bookkeeping of this class. */
  protected tracked(options: RelayOptions): RelayOptions {
    return {
      ...options,
      onEvents: (events, tokens) => options.onEvents(events, tokens),
      onFirstByte: () => {
        this.firstByteIsHere()
        options.onFirstByte()
      },
      settled: (end) => {
        this.release()
        options.settled(end)
      },
    }
  }

  /** Ends the response: the client disconnected, or the gateway gave up; with an OriginError, like a failed engine. */
  abandon(reason: unknown): void {
    this.source.stop(reason)
    if (reason instanceof OriginError) return
    this.#relay?.clientGone()
    this.takenOver?.clientGone()
  }
}

function completeEnd(bytes: number): RelayResult {
  return { end: 'complete', failure: null, events: 0, usage: null, bytes }
}
