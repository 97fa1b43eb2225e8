import { defaultTimers } from '../../origin/timers.ts'
import { OriginError, type Timer, type OriginRequest } from '../../ports.ts'

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
