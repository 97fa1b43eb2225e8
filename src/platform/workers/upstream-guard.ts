import { patientTimers } from '../../origin/patience.ts'
import { OriginError, type OriginRequest } from '../../ports/origin.ts'
import type { Timer } from '../../ports/timers.ts'

/** A response whose head has arrived. */
interface GuardedAnswer {
  /** The first byte did not come in time. */
  late(reason: OriginError): void
  /** The client disconnected, or the gateway gave up. */
  abandon(reason: unknown): void
}

/**
 * Aborts a call to an engine when the client disconnects or the limit for the first byte passes. One listener and one
 * timer per call.
 */
export class UpstreamGuard {
  /** Aborts the fetch. */
  readonly controller = new AbortController()
  readonly #signal: OriginRequest['signal']
  readonly #timer: Timer
  #answer: GuardedAnswer | null = null
  #isOver = false

  constructor({ signal, firstByteMs, target, timers }: OriginRequest, now: () => number) {
    this.#signal = signal
    signal.addEventListener('abort', () => this.#abandon())
    this.#timer = patientTimers(timers, now).set(firstByteMs, () => {
      const reason = new OriginError('first_byte_timeout', `no first byte from ${target.url} within ${firstByteMs} ms`)
      if (this.#answer === null) this.controller.abort(reason)
      else this.#answer.late(reason)
    })
  }

  /** The client disconnected, or the gateway gave up. */
  get clientGone(): boolean {
    return this.#signal.aborted && !(this.#signal.reason instanceof OriginError)
  }

  answered(answer: GuardedAnswer): void {
    this.#answer = answer
    if (this.#signal.aborted) this.#abandon()
  }

  firstByteIsHere(): void {
    this.#timer.cancel()
  }

  /** The listener stays until its request ends, because removing it costs more. */
  over(): void {
    this.#timer.cancel()
    this.#isOver = true
  }

  #abandon(): void {
    if (this.#isOver) return
    if (this.#answer === null) this.controller.abort(this.#signal.reason)
    else this.#answer.abandon(this.#signal.reason)
  }
}
