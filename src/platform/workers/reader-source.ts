import type { ByteSource } from '../../origin/relay/pull-answer.ts'
import { OriginError } from '../../ports/origin.ts'

interface StopReason {
  readonly reason: unknown
}

/** A fetched body, read piece by piece, or passed on whole for a native pipe. */
export class ReaderSource implements ByteSource {
  readonly #controller: AbortController
  #body: ReadableStream<Uint8Array> | null
  #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  #failure: StopReason | null = null
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
      throw this.#recordFailure(error)
    }
  }

  #throwIfStopped(): void {
    if (this.#failure !== null) throw this.#failure.reason
  }

  #recordFailure(error: unknown): unknown {
    this.#failure ??= { reason: new OriginError('reset', `the engine failed: ${String(error)}`, { cause: error }) }
    return this.#failure.reason
  }

  stop(reason: unknown): void {
    if (this.#ended || this.#failure !== null) return
    this.#failure = { reason: reason ?? new Error('stopped') }
    this.#controller.abort(reason)
  }

  /** Why the body ended early. null: it did not. */
  get failure(): StopReason | null {
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
