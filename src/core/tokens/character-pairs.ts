import { codeAt, widthOf } from './utf8.ts'

const PAIR_BITS = 21

/**
 * Pairs of neighbouring characters inside tokens, as bits by a hash. No merge crosses two characters that no token has
 * side by side, so a text may be divided there: equal words are then merged once.
 */
export class CharacterPairs {
  readonly #bits = new Uint32Array(1 << (PAIR_BITS - 5))

  /** Adds the pairs of the token `bytes[from, to)`. */
  add(bytes: Uint8Array, from: number, to: number): void {
    for (let at = from; at < to;) {
      const next = at + widthOf(bytes[at] as number)
      if (next >= to) return
      const bit = pairBit(codeAt(bytes, at), codeAt(bytes, next))
      this.#bits[bit >>> 5] = (this.#bits[bit >>> 5] as number) | (1 << (bit & 31))
      at = next
    }
  }

  /** Whether a token may have both side by side. */
  has(first: number, second: number): boolean {
    const bit = pairBit(first, second)
    return ((this.#bits[bit >>> 5] as number) & (1 << (bit & 31))) !== 0
  }
}

const pairBit = (first: number, second: number): number =>
  Math.imul(Math.imul(first, 0x9e3779b1) ^ second, 0x85ebca6b) >>> (32 - PAIR_BITS)
