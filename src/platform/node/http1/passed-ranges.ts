/** Payload ranges of one read that did not pass as they are: what the observer emitted for each of them. */
import { chunkOf, CRLF } from './chunked.ts'

/** A range that the observer read. All others passed unchanged. */
interface ObservedRange {
  /** Number of the range in its read. */
  readonly index: number
  /** Number of pieces emitted up to its end. */
  readonly end: number
  /** All of its bytes were emitted. */
  readonly isWhole: boolean
}

export class PassedRanges {
  /** Pieces that the observer emitted, in order. */
  readonly #emitted: Uint8Array[] = []
  readonly #observed: ObservedRange[] = []
  #counted = 0
  /** Number of pieces emitted before this read. */
  #before = 0
  #all = true
  /** Bytes were held back, so pieces and ranges do not match. */
  #isMixed = false
  readonly emit = (piece: Uint8Array): void => void this.#emitted.push(piece)

  /** Exactly the bytes of the read passed. */
  get all(): boolean {
    return this.#all
  }

  /** Pieces that the observer emitted. */
  get pieces(): readonly Uint8Array[] {
    return this.#emitted
  }

  /** Marks the pieces so far as older than this read. */
  startRead(): void {
    this.#before = this.#counted = this.#emitted.length
  }

  /** Records that the observer read a range of `bytes`. `isClean`: no bytes were held back before or after it. */
  addObserved(index: number, bytes: number, isClean: boolean): void {
    let emitted = 0
    for (let i = this.#counted; i < this.#emitted.length; i++) emitted += this.#emitted[i]!.length
    this.#counted = this.#emitted.length
    const isWhole = isClean && emitted === bytes
    this.#observed.push({ index, end: this.#counted, isWhole })
    if (!isWhole) this.#all = false
    if (!isClean) this.#isMixed = true
  }

  clear(): void {
    // Setting a length costs more than the test, and of most reads no piece is emitted.
    if (this.#emitted.length > 0) this.#emitted.length = 0
    if (this.#observed.length > 0) this.#observed.length = 0
    this.#counted = this.#before = 0
    this.#all = true
    this.#isMixed = false
  }

  /** Everything that passed, in order. */
  piecesOf(bytes: Buffer, ranges: readonly number[]): readonly Uint8Array[] {
    const pieces = this.#emitted.slice(0, this.#before)
    let from = this.#before
    let done = 0
    const pass = (index: number): void => {
      for (; done < index; done++) pieces.push(bytes.subarray(ranges[2 * done]!, ranges[2 * done + 1]!))
    }
    for (const { index, end } of this.#observed) {
      pass(index)
      for (; from < end; from++) pieces.push(this.#emitted[from]!)
      done = index + 1
    }
    pass(ranges.length / 2)
    for (; from < this.#emitted.length; from++) pieces.push(this.#emitted[from]!)
    return pieces
  }

  /**
   * The bytes in the engine's framing, without what was removed: complete chunks are dropped, others are framed
   * again. Each range is one whole chunk. null: bytes were held back, so the chunks do not match what passed.
   */
  withoutDropped(bytes: Buffer, ranges: readonly number[]): readonly Uint8Array[] | null {
    if (this.#before > 0 || this.#isMixed) return null
    const parts: Uint8Array[] = []
    let done = 0
    let piece = 0
    for (const { index, end, isWhole } of this.#observed) {
      const pieces = this.#emitted.slice(piece, end)
      piece = end
      if (isWhole) continue
      const chunkFrom = index === 0 ? 0 : ranges[2 * index - 1]! + CRLF.length
      if (chunkFrom > done) parts.push(bytes.subarray(done, chunkFrom))
      if (pieces.length > 0) parts.push(...chunkOf(pieces))
      done = ranges[2 * index + 1]! + CRLF.length
    }
    if (done < bytes.length) parts.push(bytes.subarray(done))
    return parts
  }
}
