import type { ByteSource } from '../../origin/pulled-answer.ts'
import { OriginError } from '../../ports.ts'

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
