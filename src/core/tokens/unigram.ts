/** Unigram: divides a piece into the tokens with the greatest sum of scores. */
import type { IdBuffer } from './id-buffer.ts'
import { KEPT_BYTES, LongPieceLimit } from './long-pieces.ts'
import { TokenTree } from './token-tree.ts'
import { widthOf } from './utf8.ts'
import type { Vocabulary } from './vocabulary.ts'

/** Cost of an unknown character beyond the lowest score. */
const UNKNOWN_PENALTY = 10

export class UnigramSearch {
  readonly #vocabulary: Vocabulary
  readonly #tree: TokenTree
  readonly #scores: Float64Array
  readonly #unknown: number
  readonly #bytes: readonly number[] | null
  readonly #unknownScore: number
  readonly #longPieces = new LongPieceLimit()
  /** By end of a token, bytes from the start of the piece: best sum of scores, start of the last token, its id. */
  #sums = new Float64Array(0)
  #starts = new Int32Array(0)
  #ids = new Int32Array(0)
  /** Tree nodes visited so far. Tests check that they grow linearly. */
  steps = 0

  constructor(vocabulary: Vocabulary, unknown: number, bytes: readonly number[] | null) {
    this.#vocabulary = vocabulary
    this.#tree = new TokenTree(vocabulary)
    this.#scores = vocabulary.scores
    this.#unknown = unknown
    this.#bytes = bytes
    this.#unknownScore = this.#scores.reduce((min, score) => Math.min(min, score), Infinity) - UNKNOWN_PENALTY
  }

  /** Call before each text. */
  begin(): void {
    this.#longPieces.begin()
  }

  /** Appends the ids of `bytes[from, to)`. Throws if the text exceeds the limit of long pieces. */
  merge(bytes: Uint8Array, from: number, to: number, out: IdBuffer): void {
    const size = to - from
    this.#longPieces.add(size)
    if (this.#sums.length <= size) this.#grow(Math.max(1024, size + 1))
    this.#starts.fill(-1, 0, size + 1)
    this.#sums[0] = 0
    for (let at = 0; at < size;) {
      const next = at + widthOf(bytes[from + at] as number)
      if (!this.#extend(bytes, from, at, { next, size })) {
        this.#offer(next, at, this.#unknown, (this.#sums[at] as number) + this.#unknownScore)
      }
      at = next
    }
    this.#append(bytes, from, size, out)
    if (size > KEPT_BYTES) this.#grow(0)
  }

  #grow(count: number): void {
    this.#sums = new Float64Array(count)
    this.#starts = new Int32Array(count)
    this.#ids = new Int32Array(count)
  }

  /** Tries all tokens that start at `at`. Returns whether one is the single character up to `next`. */
  #extend(
    bytes: Uint8Array,
    from: number,
    at: number,
    { next, size }: { readonly next: number; readonly size: number },
  ): boolean {
    const sum = this.#sums[at] as number
    let single = false
    let node = 0
    for (let end = at; end < size;) {
      this.steps++
      node = this.#tree.child(node, bytes[from + end] as number)
      if (node < 0) break
      end++
      const id = this.#tree.idAt(node)
      if (id < 0) continue
      this.#offer(end, at, id, (this.#scores[id] as number) + sum)
      if (end === next) single = true
    }
    return single
  }

  /** Keeps the first of equal sums, as Hugging Face's library does. */
  #offer(end: number, start: number, id: number, sum: number): void {
    if ((this.#starts[end] as number) >= 0 && !(sum > (this.#sums[end] as number))) return
    this.#sums[end] = sum
    this.#starts[end] = start
    this.#ids[end] = id
  }

  #append(bytes: Uint8Array, from: number, size: number, out: IdBuffer): void {
    // Links lead from the end to the start: turn them round. `starts` then holds the end of the token that begins
    // there.
    for (let end = size, after = -1; ;) {
      const start = this.#starts[end] as number
      this.#starts[end] = after
      after = end
      if (end === 0) break
      end = start
    }
    for (let at = 0; at < size;) {
      let end = this.#starts[at] as number
      const id = this.#ids[end] as number
      if (id === this.#unknown) {
        // Unknown characters in a row are one token.
        while (end < size && this.#ids[this.#starts[end] as number] === id) end = this.#starts[end] as number
        this.#appendUnknown(bytes, from + at, from + end, out)
      } else out.push(id)
      at = end
    }
  }

  #appendUnknown(bytes: Uint8Array, from: number, to: number, out: IdBuffer): void {
    if (this.#bytes === null || this.#vocabulary.is(this.#unknown, bytes, from, to)) out.push(this.#unknown)
    else for (let i = from; i < to; i++) out.push(this.#bytes[bytes[i] as number] as number)
  }
}
