import { chainWords } from './block-hash.ts'
import type { Text } from './utf8-text.ts'
import type { EncodeUtf8 } from './utf8.ts'

/** A larger buffer is not kept between prompts, bytes. */
const KEPT_BYTES = 2 * 1024 * 1024

/** Reused buffer for the pieces of a prompt as UTF-8. */
export class Utf8Buffer {
  readonly #encode: EncodeUtf8
  #bytes = new Uint8Array(64 * 1024)
  length = 0

  constructor(encode: EncodeUtf8) {
    this.#encode = encode
  }

  /** `length` bytes since `clear`, then unused space; valid until the next `add`. */
  get bytes(): Uint8Array {
    return this.#bytes
  }

  /**
   * The full 32-bit words of the bytes, in the machine's byte order (little-endian on all server platforms of
   * JavaScript).
   */
  get words(): Uint32Array {
    return new Uint32Array(this.#bytes.buffer, 0, this.length >>> 2)
  }

  clear(): void {
    this.length = 0
    if (this.#bytes.length > KEPT_BYTES) this.#bytes = new Uint8Array(64 * 1024)
  }

  add(text: Text): void {
    if (typeof text !== 'string') return this.#append(text.utf8)
    // A UTF-16 unit is at most three bytes of UTF-8.
    this.#reserve(text.length * 3)
    this.length += this.#encode(text, this.#bytes.subarray(this.length))
  }

  /**
   * Adds as much of `text` as fits into `maxBytes` in all. Returns the length of the rest: in bytes, or in UTF-16
   * units of a string.
   */
  addUpTo(text: Text, maxBytes: number): number {
    const room = Math.max(0, maxBytes - this.length)
    if (typeof text !== 'string') {
      const { utf8 } = text
      if (utf8.length <= room) this.#append(utf8)
      else this.#append(utf8.subarray(0, room))
      return Math.max(0, utf8.length - room)
    }
    this.add(text.length <= room ? text : text.slice(0, room))
    return Math.max(0, text.length - room)
  }

  #append(utf8: Uint8Array): void {
    this.#reserve(utf8.length)
    this.#bytes.set(utf8, this.length)
    this.length += utf8.length
  }

  /**
   * Hash of the content with 53 bits, the most that a number key holds. Native encoding and a pass over words is much
   * faster than a pass over the string.
   */
  hash(): number {
    const state = { lo: this.length, hi: 0x2545f491 }
    const { length } = this
    this.align()
    chainWords(state, this.words, 0, this.words.length)
    this.length = length
    return (state.hi & 0x1fffff) * 2 ** 32 + state.lo
  }

  /** Pads with zeros to a whole word. */
  align(): void {
    this.#reserve(3)
    while (this.length % 4 !== 0) this.#bytes[this.length++] = 0
  }

  #reserve(extra: number): void {
    const needed = this.length + extra
    if (needed <= this.#bytes.length) return
    const larger = new Uint8Array((Math.max(needed, this.#bytes.length * 2) + 3) & ~3)
    larger.set(this.#bytes.subarray(0, this.length))
    this.#bytes = larger
  }
}
