/** Did a stream say that it is complete? OpenAI's streams end in `data: [DONE]`; an engine that broke may end cleanly without it. */

/** The mark, the blank line, and room for a comment or two behind it. */
const KEPT_BYTES = 128
/** The space is optional (TGI leaves it out), and keep-alive comments may follow. */
const MARK = /(?:^|[\r\n])data: ?\[DONE\][ \t]*(?:[\r\n](?::[^\r\n]*)?)*$/
const latin1 = new TextDecoder('latin1')

/** Keeps the last bytes of a stream, however it is cut. */
export class DoneWatch {
  readonly #kept = new Uint8Array(KEPT_BYTES)

  take(chunk: Uint8Array): void {
    const { length } = chunk
    if (length >= KEPT_BYTES) return this.#kept.set(chunk.subarray(length - KEPT_BYTES))
    this.#kept.copyWithin(0, length)
    this.#kept.set(chunk, KEPT_BYTES - length)
  }

  /** Nothing but blanks and comments follows the mark. */
  get done(): boolean {
    return MARK.test(latin1.decode(this.#kept).replace(/^\0+/, ''))
  }
}
