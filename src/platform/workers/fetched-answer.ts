/** An answer on Workers: read in JS as far as somebody must, piped natively from there. */
import { cutError } from '../../origin/pipe.ts'
import { PulledAnswer, type AnswerHead, type AnswerLimits } from '../../origin/pulled-answer.ts'
import { toHeaders } from '../../origin/headers.ts'
import { OriginError, type PassEnd, type Reply } from '../../ports.ts'
import type { ReaderSource } from './fetched-source.ts'

export class FetchedAnswer extends PulledAnswer {
  readonly #source: ReaderSource

  constructor(head: AnswerHead, source: ReaderSource, limits: AnswerLimits) {
    super(head, source, limits)
    this.#source = source
  }

  override pass(reply: Reply): Response {
    // Before the first byte somebody must watch for it and send heartbeats; that is the pulled pipe's work.
    const native = !reply.observe && !reply.hideUsage && this.held.length > 0 && !this.ended && this.bodied
    if (!native) return super.pass(reply)
    const { readable, writable } = new IdentityTransformStream()
    const tracked = this.tracked(reply)
    const work = new NativePipe(this.#source, tracked, this.limits.signal).run(this.held, writable, this.sse)
    reply.scope.background(work)
    return new Response(readable, { status: reply.status, headers: toHeaders(reply.headers) })
  }
}

/** workerd copies the bytes; JS is woken when the body has ended, one way or another. */
class NativePipe {
  readonly #source: ReaderSource
  readonly #reply: Reply
  readonly #signal: AbortSignal
  #bytes = 0

  constructor(source: ReaderSource, reply: Reply, signal: AbortSignal) {
    this.#source = source
    this.#reply = reply
    this.#signal = signal
  }

  async run(held: readonly Uint8Array[], writable: WritableStream<Uint8Array>, sse: boolean): Promise<void> {
    try {
      const writer = writable.getWriter()
      for (const chunk of held) {
        await writer.write(chunk)
        this.#bytes += chunk.length
      }
      writer.releaseLock()
    } catch {
      return this.#gone()
    }
    try {
      // Neither end may close the other: only so can it be told which of them broke.
      await this.#source.rest().pipeTo(writable, { preventClose: true, preventAbort: true, preventCancel: true })
    } catch (error) {
      return this.#broken(error, writable, sse)
    }
    // A pipe to a client that left may call itself done.
    if (this.#signal.aborted) return this.#gone()
    try {
      await writable.close()
    } catch {
      return this.#gone()
    }
    this.#settle('complete', null)
  }

  async #broken(error: unknown, writable: WritableStream<Uint8Array>, sse: boolean): Promise<void> {
    const reason = this.#source.failure?.reason ?? error
    const writer = writable.getWriter()
    // null: the writable itself is broken, so it was the client who left.
    if (this.#signal.aborted || writer.desiredSize === null) return this.#gone()
    const failure = reason instanceof OriginError ? reason.failure : 'reset'
    this.#settle('engine_cut', failure)
    try {
      if (sse) {
        // Nobody read where the last event ended. A blank line ends it; where it had ended, it says nothing.
        await writer.write(new TextEncoder().encode('\n\n'))
        await writer.write(this.#reply.cutEvent(failure))
      }
      await writer.abort(cutError())
    } catch {
      // The client left meanwhile.
    }
  }

  #gone(): void {
    this.#source.stop(new OriginError('reset', 'the client is gone'))
    this.#settle('client_gone', null)
  }

  #settle(end: PassEnd['end'], failure: PassEnd['failure']): void {
    this.#reply.settled({ end, failure, events: 0, usage: null, bytes: this.#bytes })
  }
}
