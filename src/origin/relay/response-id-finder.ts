/** Finds the id of a stored response (`/v1/responses`) in a passing body. */
import { concatBytes } from '../../core/bytes.ts'

/** Bytes that are searched. The id is near the start of the body, or in the first event. */
const LOOK_BYTES = 4096

const QUOTE = 0x22

const ID = /"id"\s*:\s*"(resp_[\w.:=-]{1,190})"/

export class ResponseIdFinder {
  readonly #found: (id: string) => void
  #pieces: Uint8Array[] = []
  #size = 0
  #over = false

  /** @param found called at most once, inside the `take` that got the last byte of the id. */
  constructor(found: (id: string) => void) {
    this.#found = found
  }

  /** null for a caller without a callback. */
  static for(found: ((id: string) => void) | undefined): ResponseIdFinder | null {
    return found === undefined ? null : new ResponseIdFinder(found)
  }

  /** No id was found yet, and the limit is not reached. */
  get looks(): boolean {
    return !this.#over
  }

  take(chunk: Uint8Array): void {
    if (this.#over) return
    const piece = chunk.subarray(0, LOOK_BYTES - this.#size)
    // A copy: the caller may reuse the memory.
    this.#pieces.push(new Uint8Array(piece))
    this.#size += piece.length
    // An id ends with a quote, so a piece without one cannot complete it.
    const id = piece.includes(QUOTE)
      ? (ID.exec(new TextDecoder().decode(concatBytes(this.#pieces, this.#size)))?.[1] ?? null)
      : null
    if (id === null && this.#size < LOOK_BYTES) return
    this.#over = true
    this.#pieces = []
    if (id !== null) this.#found(id)
  }
}
