/** Whether the request of a stream is still there to be sent again. */

interface KeptParts {
  now(): number
  /** Longest output that is generated again, ms; null: the request is not sent again once the client has output. */
  readonly replayMs: number | null
  /** Called once, when the request will not be sent again. `once`: it was not repeated. */
  dropRequest(once: boolean): void
}

/** The request body is kept until the stream has output, or as long as that output may be generated again. */
export class KeptRequest {
  readonly #parts: KeptParts
  /** Time of the first byte. null: it is not kept any more. */
  #from: number | null
  #isFirst = true

  constructor(parts: KeptParts) {
    this.#parts = parts
    this.#from = parts.now()
  }

  get isKept(): boolean {
    return this.#from !== null
  }

  /** A further engine has got the stream. */
  moved(): void {
    this.#isFirst = false
  }

  /** The client has output: drops the request unless that output is short enough to be generated again. */
  dropIfLate(): void {
    if (this.#from === null) return
    const { replayMs, now } = this.#parts
    if (replayMs === null || now() - this.#from > replayMs) this.drop()
  }

  drop(): void {
    if (this.#from === null) return
    this.#from = null
    this.#parts.dropRequest(this.#isFirst)
  }
}
