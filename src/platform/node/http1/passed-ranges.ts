/** Payload ranges of one read that passed to the client, and the pieces emitted for the others. */
import { chunkOf, CRLF } from './chunked.ts'

/** How much of a range passed: nothing, a part, all; MIXED: unknown, because bytes were held back. */
const NONE = 0

const SOME = 1

const ALL = 2

const MIXED = 3

export class PassedRanges {
  /** Pieces that the observer emitted for ranges that it read, in order. */
  readonly #emitted: Uint8Array[] = []
  /** For each range: number of pieces emitted after it; -1: it passed unchanged, without a piece. */
  readonly #ends: number[] = []
  readonly #results: number[] = []
  #counted = 0
  /** Number of pieces emitted before this read. */
  #before = 0
  #all = true
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

  /** Records that the next range passed unchanged. */
  addPassed(): void {
    this.#ends.push(-1)
    this.#results.push(ALL)
  }

  /** Records that the observer read the next range. `clean`: no bytes were held back before or after it. */
  addObserved(length: number, clean: boolean): void {
    let size = 0
    for (let i = this.#counted; i < this.#emitted.length; i++) size += this.#emitted[i]!.length
    this.#counted = this.#emitted.length
    this.#ends.push(this.#counted)
    const result = !clean ? MIXED : size === length ? ALL : size === 0 ? NONE : SOME
    this.#results.push(result)
    if (result !== ALL) this.#all = false
  }

  clear(): void {
    this.#emitted.length = 0
    this.#ends.length = 0
    this.#results.length = 0
    this.#counted = this.#before = 0
    this.#all = true
  }

  /** Everything that passed, in order. */
  piecesOf(bytes: Buffer, ranges: readonly number[]): readonly Uint8Array[] {
    const pieces = this.#emitted.slice(0, this.#before)
    let from = this.#before
    for (let i = 0; i < this.#ends.length; i++) {
      const end = this.#ends[i]!
      if (end < 0) pieces.push(bytes.subarray(ranges[2 * i]!, ranges[2 * i + 1]!))
      else for (; from < end; from++) pieces.push(this.#emitted[from]!)
    }
    for (; from < this.#emitted.length; from++) pieces.push(this.#emitted[from]!)
    return pieces
  }

  /**
   * The bytes in the engine's framing, without what was removed: complete chunks are dropped, others are framed
   * again. Each range is one whole chunk. null: bytes were held back, so the chunks do not match what passed.
   */
  withoutDropped(bytes: Buffer, ranges: readonly number[]): readonly Uint8Array[] | null {
    if (this.#before > 0 || this.#results.includes(MIXED)) return null
    const parts: Uint8Array[] = []
    let done = 0
    let piece = 0
    for (let i = 0; i < this.#results.length; i++) {
      // Nearly all ranges: without a list of pieces for each.
      if (this.#ends[i]! < 0) continue
      const pieces = this.#emitted.slice(piece, this.#ends[i])
      piece += pieces.length
      if (this.#results[i] === ALL) continue
      const chunkFrom = i === 0 ? 0 : ranges[2 * i - 1]! + CRLF.length
      if (chunkFrom > done) parts.push(bytes.subarray(done, chunkFrom))
      if (pieces.length > 0) parts.push(...chunkOf(pieces))
      done = ranges[2 * i + 1]! + CRLF.length
    }
    if (done < bytes.length) parts.push(bytes.subarray(done))
    return parts
  }
}
