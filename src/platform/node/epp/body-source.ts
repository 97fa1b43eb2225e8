/** The body of a response on its way from a proxy: pieces wait for their reader. */
import type { ByteSource } from '../../../origin/relay/pull-answer.ts'

interface PendingRead {
  readonly resolve: (piece: Uint8Array | null) => void
  readonly reject: (error: unknown) => void
}

export class BodySource implements ByteSource {
  #pieces: Uint8Array[] = []
  #isEnded = false
  #failure: { readonly reason: unknown } | null = null
  #pending: PendingRead | null = null
  readonly #onStop: (reason: unknown) => void

  /** @param onStop called when the reader needs no more */
  constructor(onStop: (reason: unknown) => void) {
    this.#onStop = onStop
  }

  put(piece: Uint8Array): void {
    this.#pieces.push(piece)
    this.#serve()
  }

  end(): void {
    this.#isEnded = true
    this.#serve()
  }

  fail(reason: unknown): void {
    this.#failure ??= { reason }
    this.#serve()
  }

  read(): Promise<Uint8Array | null> {
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject }
      this.#serve()
    })
  }

  stop(reason: unknown): void {
    if (this.#failure !== null) return
    this.#failure = { reason }
    this.#onStop(reason)
    this.#serve()
  }

  #serve(): void {
    const pending = this.#pending
    if (pending === null) return
    const piece = this.#pieces.shift()
    if (piece === undefined && !this.#isEnded && this.#failure === null) return
    this.#pending = null
    if (piece !== undefined) pending.resolve(piece)
    else if (this.#isEnded) pending.resolve(null)
    else pending.reject(this.#failure!.reason)
  }
}
