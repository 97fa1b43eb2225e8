import { chainWords } from './block-hash.ts'
import type { Text } from './utf8-text.ts'

/**
 * Encodes `text` as UTF-8 at the start of `into`, lone surrogates as U+FFFD; returns bytes written.
 * `TextEncoder.encodeInto` does.
 */
export type EncodeUtf8 = (text: string, into: Uint8Array) => number

/** Beyond this the buffer is not kept between prompts. */
const KEPT_BYTES = 2 * 1024 * 1024

/** A reused buffer that takes a prompt's pieces as UTF-8, one after the other. */
export class Utf8Buffer {
  readonly #encode: EncodeUtf8
  #bytes = new Uint8Array(64 * 1024)
  length = 0

  constructor(encode: EncodeUtf8) {
    this.#encode = encode
  }

  /** `length` bytes written since `clear`, then leftovers; valid until the next `add`. */
  get bytes(): Uint8Array {
    return this.#bytes
  }

  /**
   * The same as 32-bit words (the machine's byte order; all that run JavaScript servers are little-endian), full ones
   * only.
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
   * Adds as much of `text` as fits into `mostBytes` in all. Returns the length of the rest: in bytes, or in UTF-16
   * units of a string.
   */
  addUpTo(text: Text, mostBytes: number): number {
    const room = Math.max(0, mostBytes - this.length)
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
   * 53 bits of a hash of what is written: as many as a number key holds. Native encoding and a pass over words beat a
   * pass over the string by far.
   */
  hash(): number {
    const state = { lo: this.length, hi: 0x2545f491 }
    const { length } = this
    this.align()
    chainWords(state, this.words, 0, this.words.length)
    this.length = length
    return (state.hi & 0x1fffff) * 2 ** 32 + state.lo
  }

  /** Fills up to a whole word with zeros. */
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
