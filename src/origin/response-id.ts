/** Finds the id of a stored response (`/v1/responses`) in a body that passes. */
import { joined } from './bytes.ts'

/** The id is near the start of the body, or in the first event of the stream. */
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

  /** Returns null for a caller that does not look for ids. */
  static for(found: ((id: string) => void) | undefined): ResponseIdFinder | null {
    return found === undefined ? null : new ResponseIdFinder(found)
  }

  /** No id was found so far, and one may still come. */
  get looks(): boolean {
    return !this.#over
  }

  take(chunk: Uint8Array): void {
    if (this.#over) return
    const piece = chunk.subarray(0, LOOK_BYTES - this.#size)
    this.#pieces.push(piece)
    this.#size += piece.length
    // An id ends with a quote, so bytes without one complete none.
    const id = piece.includes(QUOTE) ? (ID.exec(new TextDecoder().decode(joined(this.#pieces, this.#size)))?.[1] ?? null) : null
    if (id === null && this.#size < LOOK_BYTES) return
    this.#over = true
    this.#pieces = []
    if (id !== null) this.#found(id)
  }
}
