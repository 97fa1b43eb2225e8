/** Length, bytes, up to which a scan over all pairs is faster than a heap. */
export const SHORT_BYTES = 96

/** Limit of bytes in longer pieces per text: about 0.3 s of work. */
const MAX_LONG_BYTES = 1024 * 1024

/** Longest piece, bytes. A heap takes about 60 bytes per byte of the piece. */
const MAX_PIECE_BYTES = 256 * 1024

/** Memory, bytes, kept after a long piece. */
export const KEPT_BYTES = 32 * 1024

/** Limit of the long pieces of a text, so that no text takes long. */
export class LongPieceLimit {
  #bytes = 0

  /** Call before each text. */
  begin(): void {
    this.#bytes = 0
  }

  /** Returns whether the piece is long. Throws if the text exceeds the limit. */
  add(bytes: number): boolean {
    if (bytes <= SHORT_BYTES) return false
    this.#bytes += bytes
    if (this.#bytes > MAX_LONG_BYTES || bytes > MAX_PIECE_BYTES) {
      throw new Error(`${this.#bytes} bytes or more are in words without a split`)
    }
    return true
  }
}
