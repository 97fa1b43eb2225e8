/**
 * An engine's answer behind a pull source: everything of `OriginAnswer` that does not depend on who delivers the bytes.
 */
import { OriginError, type OriginAnswer, type RelayResult, type RelayOptions } from '../../ports.ts'
import { concatBytes } from '../../bytes.ts'
import { LeadingComments } from './sse.ts'
import { headerOf, headersInit } from '../headers.ts'
import { PullRelay } from './pull-relay.ts'

/** Where an answer's bytes come from. The platform writes it. */
export interface ByteSource {
  /**
   * The next bytes; null at a clean end. One call at a time. Rejects with an OriginError, or with what `stop` was
   * given.
   */
  read(): Promise<Uint8Array | null>
  /** Lets go of the engine: a pending and every later read rejects with `reason`. Harmless when repeated or late. */
  stop(reason: unknown): void
}

export interface AnswerHead {
  readonly status: number
  /** Lower-case, hop-by-hop removed. */
  readonly headers: readonly string[]
}

export interface AnswerLimits {
  readonly now: () => number
}

/** Statuses that have no body, whatever the headers say. */
export const BODILESS: ReadonlySet<number> = new Set([101, 103, 204, 205, 304])
/** Keep-alive comments that may be held back while no token has come. */
const PRELUDE_BYTES = 16 * 1024

/** Its platform watches the limit for the first byte and the client, and calls `gone`. */
export class PullAnswer implements OriginAnswer {
  readonly status: number
  readonly headers: readonly string[]
  readonly sse: boolean
  protected readonly source: ByteSource
  protected readonly limits: AnswerLimits
  /** Read and not passed on yet. */
  protected held: Uint8Array[] = []
  protected ended = false
  /** Set by an answer that passes by other means than the pipe: told when the client is gone. */
  protected takenOver: (() => void) | null = null
  /** The read in flight, so that `pass` can go on from a `firstByte` that still waits. */
  #reading: Promise<Uint8Array | null> | null = null
  #pipe: PullRelay | null = null

  constructor(head: AnswerHead, source: ByteSource, limits: AnswerLimits) {
    this.status = head.status
    this.headers = head.headers
    this.sse = (headerOf(head.headers, 'content-type') ?? '').toLowerCase().startsWith('text/event-stream')
    this.source = source
    this.limits = limits
  }

  async firstByte(): Promise<void> {
    const prelude = this.sse ? new LeadingComments() : null
    let heldBytes = 0
    try {
      while (this.#pipe === null && this.takenOver === null) {
        const chunk = await this.next()
        // `pass` has taken over while this read was waiting: the chunk is its own.
        if (this.#pipe !== null || this.takenOver !== null) return
        if (chunk === null) {
          this.ended = true
          break
        }
        this.held.push(chunk)
        heldBytes += chunk.length
        if (prelude === null || prelude.hasContent(chunk) || heldBytes > PRELUDE_BYTES) break
      }
    } catch (error) {
      this.release()
      throw error
    }
    this.firstByteIsHere()
  }

  begun(): Uint8Array {
    return this.held.length === 1
      ? this.held[0]!
      : concatBytes(
          this.held,
          this.held.reduce((size, { length }) => size + length, 0),
        )
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

  /** May this status have a body at all? */
  protected get bodied(): boolean {
    return !BODILESS.has(this.status)
  }

  pass(reply: RelayOptions): Response {
    const tracked = this.tracked(reply)
    if (!this.bodied || (this.ended && this.held.length === 0)) {
      this.source.stop(new OriginError('malformed', 'a body where none may be'))
      tracked.settled(completeEnd(0))
      return new Response(null, { status: reply.status, headers: headersInit(reply.headers) })
    }
    this.#pipe = new PullRelay({
      reply: tracked,
      sse: this.sse,
      held: this.held,
      ended: this.ended,
      now: this.limits.now,
      next: () => this.next(),
      stop: (reason) => this.source.stop(reason),
    })
    return new Response(this.#pipe.stream, { status: reply.status, headers: headersInit(reply.headers) })
  }

  discard(): void {
    this.release()
    this.source.stop(new OriginError('reset', 'the answer was discarded'))
  }

  /** One read at a time; a second caller joins the first one's. */
  protected next(): Promise<Uint8Array | null> {
    this.#reading ??= this.source.read().finally(() => (this.#reading = null))
    return this.#reading
  }

  /** Nobody need wait for it any more. */
  protected firstByteIsHere(): void {}

  /** No timer and no listener stays behind an answer that is done with. */
  protected release(): void {}

  /** The reply with our own bookkeeping around it. */
  protected tracked(reply: RelayOptions): RelayOptions {
    return {
      ...reply,
      cutEvent: (failure) => reply.cutEvent(failure),
      onEvents: (events) => reply.onEvents(events),
      onFirstByte: () => {
        this.firstByteIsHere()
        reply.onFirstByte()
      },
      settled: (end) => {
        this.release()
        reply.settled(end)
      },
    }
  }

  /** The client is gone, or the gateway has given up. */
  gone(reason: unknown): void {
    this.source.stop(reason)
    this.#pipe?.clientGone()
    this.takenOver?.()
  }
}

export function completeEnd(bytes: number): RelayResult {
  return { end: 'complete', failure: null, events: 0, usage: null, bytes }
}
