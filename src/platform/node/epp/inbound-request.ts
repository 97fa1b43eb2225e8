/** A request whose head and body come in messages of a proxy, as handlers read it. */
import { AbortListeners } from '../../../abort-listeners.ts'
import type { AbortSignalLike } from '../../../ports/abort-signal.ts'
import type { BodyAllocation } from '../../../body-memory.ts'
import { Failure } from '../../../failure.ts'
import { releaseBuffer } from '../inbound/body-buffer.ts'
import type { HeaderMap } from './header-map.ts'

const GONE = 'the proxy ended the request before it was complete'

/** Aborted when the proxy ends the request. */
class ProxySignal extends AbortListeners implements AbortSignalLike {
  aborted = false
  reason: unknown = undefined

  /** Has effect once. */
  abort(reason: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    this.callListeners()
  }
}

interface PendingBody {
  readonly resolve: (body: Uint8Array | null) => void
  readonly reject: (error: unknown) => void
}

export class InboundRequest {
  readonly method: string
  readonly url: string
  readonly headers: HeaderMap
  readonly signal = new ProxySignal()
  /** The body has been collected as it was sent; null: it was not, or it was given back. */
  body: Uint8Array | null = null
  readonly #onWanted: () => void
  #pieces: Buffer[] = []
  /** Memory of the pieces, or of the body once it is complete, as far as nothing else is in it. */
  #memories: Buffer[] = []
  #size = 0
  #isComplete = false
  #limitBytes = Infinity
  #allocation: BodyAllocation | null = null
  #pending: PendingBody | null = null
  /** The body is refused: later pieces are dropped. */
  #isRefused = false

  /** @param onWanted called when the body is needed */
  constructor(headers: HeaderMap, onWanted: () => void) {
    this.headers = headers
    this.method = headers.pseudo.get(':method') ?? 'POST'
    this.url = headers.pseudo.get(':path') ?? '/'
    this.#onWanted = onWanted
  }

  get isComplete(): boolean {
    return this.#isComplete
  }

  /** @param memory in which there is nothing else; null: there is */
  take(piece: Buffer, memory: Buffer | null = null): void {
    if (this.#isRefused || piece.length === 0) return
    if (memory !== null) this.#memories.push(memory)
    this.#size += piece.length
    this.#pieces.push(piece)
    if (this.#pending !== null) this.#hold(piece.length)
  }

  end(): void {
    this.#isComplete = true
    this.#settle()
  }

  /** Resolves with the body; null: it is longer than the limit. Rejects if the proxy ends the request. */
  collect(limitBytes: number, memory: BodyAllocation | null = null): Promise<Uint8Array | null> {
    this.#limitBytes = limitBytes
    this.#allocation = memory
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject }
      if (this.signal.aborted) return this.#refuse(new Error(GONE))
      this.#hold(this.#size)
      if (this.#isRefused) return
      this.#onWanted()
      if (this.#isComplete) this.#settle()
    })
  }

  /** Frees the memory of the body at once, not with the next garbage collection. It must not be read any more. */
  giveBack(): void {
    this.body = null
    this.#free()
  }

  gone(): void {
    if (this.signal.aborted) return
    this.#refuse(new Error(GONE))
    this.signal.abort(new Error(GONE))
  }

  #hold(bytes: number): void {
    if (this.#size > this.#limitBytes) return this.#refuse(null)
    try {
      this.#allocation?.grow(bytes)
    } catch (error) {
      this.#refuse(error as Failure)
    }
  }

  #refuse(error: Error | null): void {
    this.#isRefused = true
    this.#pieces = []
    const pending = this.#pending
    this.#pending = null
    if (error === null) pending?.resolve(null)
    else pending?.reject(error)
  }

  #settle(): void {
    const pending = this.#pending
    if (pending === null) return
    this.#pending = null
    const body = this.#pieces.length === 1 ? this.#pieces[0]! : this.#join()
    this.#pieces = []
    this.body = body
    pending.resolve(body)
  }

  #join(): Buffer {
    const body = Buffer.concat(this.#pieces, this.#size)
    this.#free()
    this.#memories = [body]
    return body
  }

  #free(): void {
    for (const memory of this.#memories) releaseBuffer(memory)
    this.#memories = []
  }
}
