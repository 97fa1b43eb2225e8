/** Memory of one request body. It doubles, so a body takes at most twice its bytes, whatever the size of its reads. */

/** Memory of this size or more is freed at once when it is not read any more. */
const RELEASED_BYTES = 16 * 1024
const NO_BYTES = Buffer.alloc(0)

export class BodyBuffer {
  readonly #firstBytes: number
  readonly #maxBytes: number
  #memory: Buffer = NO_BYTES
  #length = 0

  /**
   * @param firstBytes memory taken with the first byte
   * @param maxBytes the body is no longer, so no more memory is taken
   */
  constructor(firstBytes: number, maxBytes: number) {
    this.#firstBytes = firstBytes
    this.#maxBytes = maxBytes
  }

  get length(): number {
    return this.#length
  }

  /** The bytes put in so far, in place. */
  get bytes(): Buffer {
    return this.#length === this.#memory.length ? this.#memory : this.#memory.subarray(0, this.#length)
  }

  /** Copies `bytes` to the end. */
  put(bytes: Uint8Array): void {
    const needed = this.#length + bytes.length
    if (needed > this.#memory.length) this.#grow(needed)
    this.#memory.set(bytes, this.#length)
    this.#length = needed
  }

  /** Frees the memory at once. Views of it become empty. */
  free(): void {
    releaseBuffer(this.#memory)
    this.#memory = NO_BYTES
    this.#length = 0
  }

  #grow(needed: number): void {
    const size = Math.max(this.#firstBytes, needed, 2 * this.#memory.length)
    const grown = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(this.#maxBytes, size)))
    this.#memory.copy(grown, 0, 0, this.#length)
    releaseBuffer(this.#memory)
    this.#memory = grown
  }
}

/**
 * Frees bytes that are not read any more at once, not with the next garbage collection. V8 counts what lies outside
 * its heap, and for every 64 MB of it collects everything, which takes as long as ten requests.
 */
export function releaseBuffer({ buffer, length }: Buffer): void {
  if (length >= RELEASED_BYTES && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0)
}
