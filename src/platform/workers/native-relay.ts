import type { AnswerStart } from '../../origin/relay/answer-start.ts'
import { RelayController } from '../../origin/relay/relay-controller.ts'
import { errorEventSent, lastWriteTaken, truncationError } from '../../origin/relay/broken-end.ts'
import { OriginError } from '../../ports/origin.ts'
import type { RelayOptions } from '../../ports/relay.ts'
import type { Timer } from '../../ports/timers.ts'
import { defaultTimers } from '../../timers.ts'
import { type ReaderSource, unlock } from './reader-source.ts'
import type { UpstreamGuard } from './upstream-guard.ts'

/** Blank line: ends an incomplete event, and has no effect between two events. */
const BLANK = new Uint8Array([10, 10])

interface NativeRelayParts {
  readonly source: ReaderSource
  readonly start: AnswerStart
  readonly guard: UpstreamGuard
}

/** workerd copies the bytes; JavaScript runs again when the body ends or fails. */
export class NativeRelay {
  readonly #source: ReaderSource
  readonly #control: RelayController
  readonly #guard: UpstreamGuard
  readonly #scope: RelayOptions['scope']
  readonly #timer: Timer | null

  constructor({ source, start, guard }: NativeRelayParts, options: RelayOptions) {
    this.#source = source
    this.#control = new RelayController(options, { sse: true, reads: false, hidesUsage: false, start })
    this.#guard = guard
    const { nativeMs, scope } = options
    this.#scope = scope
    // workerd reports neither an engine that hangs nor its client's disconnect, so the booking needs a limit.
    const onTimeout = () => this.#control.settle('lapsed')
    this.#timer = nativeMs === undefined ? null : (scope.timers ?? defaultTimers).set(nativeMs, onTimeout)
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
    this.#complete()
  }

  #complete(): void {
    // A pipe to a disconnected client may resolve as if it were complete.
    if (this.#guard.clientGone) return this.#gone()
    this.#release()
    this.#control.settle('complete')
  }

  async #broken(reason: unknown, writer: WritableStreamDefaultWriter<Uint8Array>): Promise<void> {
    const error = reason instanceof OriginError ? reason : new OriginError('reset', String(reason))
    if (this.#control.endBroken(error, () => {}) === null) {
      await lastWriteTaken(this.#scope, writer.close())
      return this.#complete()
    }
    // The end of the last event is unknown, so a blank line ends it. The write fails if the client has left.
    const isConnected = await lastWriteTaken(this.#scope, writer.write(BLANK))
    if (this.#guard.clientGone || !isConnected) {
      writer.abort(truncationError()).catch(() => {})
      return this.#gone()
    }
    this.#release()
    const event = this.#control.truncate(error.failure, true)
    if (event !== null) await lastWriteTaken(this.#scope, writer.write(event))
    await errorEventSent(this.#scope)
    await writer.abort(truncationError()).catch(() => {})
  }

  #gone(): void {
    this.#source.stop(new OriginError('reset', 'the client has disconnected'))
    this.#release()
    this.#control.settle('client_gone')
  }

  #release(): void {
    this.#timer?.cancel()
    this.#guard.over()
  }
}
