/** Payload that waits for whoever pulls it. */
export class BodyQueue {
  #pieces: Buffer[] = []
  #size = 0
  #ended = false
  #failure: { readonly reason: unknown } | null = null
  #waiting: { resolve(chunk: Uint8Array | null): void; reject(error: unknown): void } | null = null

  /** Bytes that wait. */
  get size(): number {
    return this.#size
  }

  /** `piece` must stay as it is. */
  put(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#size += piece.length
    this.#serve()
  }

  end(): void {
    this.#ended = true
    this.#serve()
  }

  fail(reason: unknown): void {
    this.#failure = { reason }
    this.#serve()
  }

  /** The next piece; null: that was all. Rejects with what it failed with, behind the last piece. One call at a time. */
  read(): Promise<Uint8Array | null> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
      this.#serve()
    })
  }

  /** What waits, left where it is. */
  get pieces(): readonly Buffer[] {
    return this.#pieces
  }

  takeAll(): readonly Buffer[] {
    const pieces = this.#pieces
    this.#pieces = []
    this.#size = 0
    return pieces
  }

  #serve(): void {
    const waiting = this.#waiting
    if (waiting === null) return
    const piece = this.#pieces.shift()
    if (piece === undefined && !this.#ended && this.#failure === null) return
    this.#waiting = null
    if (piece !== undefined) {
      this.#size -= piece.length
      waiting.resolve(piece)
    } else if (this.#failure !== null) waiting.reject(this.#failure.reason)
    else waiting.resolve(null)
  }
}
