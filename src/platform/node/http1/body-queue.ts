/** Payload that waits for its reader. */
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

  /** Adds a piece, whose memory must not change. */
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

  /**
   * Resolves with the next piece; null: the end. Rejects, behind the last piece, with the reason given to `fail`. One
   * call at a time.
   */
  read(): Promise<Uint8Array | null> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
      this.#serve()
    })
  }

  /** Pieces that wait; they stay in the queue. */
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
