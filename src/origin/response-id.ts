/** Catches the id of a stored response (`/v1/responses`) as it passes. */
import { joined } from './bytes.ts'

/** The id stands at the head of the answer, or in the stream's first event. */
const LOOK_BYTES = 4096
const ID = /"id"\s*:\s*"(resp_[\w.:=-]{1,190})"/

export class ResponseIdFinder {
  #pieces: Uint8Array[] = []
  #size = 0
  #id: string | null = null

  take(chunk: Uint8Array): void {
    if (this.#size >= LOOK_BYTES) return
    this.#pieces.push(chunk.subarray(0, LOOK_BYTES - this.#size))
    this.#size += this.#pieces.at(-1)!.length
    if (this.#size >= LOOK_BYTES) this.#look()
  }

  /** null: none seen. */
  get id(): string | null {
    if (this.#size < LOOK_BYTES) this.#look()
    return this.#id
  }

  #look(): void {
    this.#id = ID.exec(new TextDecoder().decode(joined(this.#pieces, this.#size)))?.[1] ?? null
    if (this.#size >= LOOK_BYTES) this.#pieces = []
  }
}
