/** Did a stream say that it is complete? OpenAI's streams end in `data: [DONE]`; an engine that broke may end cleanly without it. */

const MARK = Uint8Array.from('data: [DONE]', (letter) => letter.charCodeAt(0))
/** The mark, `\r\n\r\n`, and room for a blank or two more. */
const KEPT_BYTES = 24

/** Keeps the last bytes of a stream, however it is cut. */
export class DoneWatch {
  readonly #kept = new Uint8Array(KEPT_BYTES)

  take(chunk: Uint8Array): void {
    const { length } = chunk
    if (length >= KEPT_BYTES) return this.#kept.set(chunk.subarray(length - KEPT_BYTES))
    this.#kept.copyWithin(0, length)
    this.#kept.set(chunk, KEPT_BYTES - length)
  }

  /** Nothing but blanks follows the mark. */
  get done(): boolean {
    let end = KEPT_BYTES
    while (end > 0 && this.#kept[end - 1]! <= 32) end--
    const start = end - MARK.length
    return start >= 0 && MARK.every((byte, i) => this.#kept[start + i] === byte)
  }
}
