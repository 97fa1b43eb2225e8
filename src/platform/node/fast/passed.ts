/** What became of one read's payload ranges on their way through the tap. */
import { chunkOf, CRLF } from '../chunks.ts'
import { empty } from './empty.ts'

/** Nothing of a range passed, another amount than all, all; or it cannot be told, since bytes were held back. */
const NONE = 0
const SOME = 1
const ALL = 2
const MIXED = 3

export class Passed {
  /** What the tap let through of ranges that were taken piece by piece, in order. */
  readonly #emitted: Uint8Array[] = []
  /** For each range: how many pieces had been let through behind it; -1: it passed as it is, and no piece was made. */
  readonly #ends: number[] = []
  readonly #fates: number[] = []
  #counted = 0
  /** Pieces that came before the read. */
  #before = 0
  #all = true
  readonly emit = (piece: Uint8Array): void => void this.#emitted.push(piece)

  /** Every byte of the read passed, and no other. */
  get all(): boolean {
    return this.#all
  }

  /** What was let through piece by piece. */
  get pieces(): readonly Uint8Array[] {
    return this.#emitted
  }

  /** What was let through so far came before this read. */
  startRead(): void {
    this.#before = this.#counted = this.#emitted.length
  }

  /** The next range passed as it is. */
  whole(): void {
    this.#ends.push(-1)
    this.#fates.push(ALL)
  }

  /** The next range was taken piece by piece. `clean`: nothing was held back before or behind it. */
  taken(length: number, clean: boolean): void {
    let size = 0
    for (let i = this.#counted; i < this.#emitted.length; i++) size += this.#emitted[i]!.length
    this.#counted = this.#emitted.length
    this.#ends.push(this.#counted)
    const fate = !clean ? MIXED : size === length ? ALL : size === 0 ? NONE : SOME
    this.#fates.push(fate)
    if (fate !== ALL) this.#all = false
  }

  clear(): void {
    empty(this.#emitted)
    empty(this.#ends)
    empty(this.#fates)
    this.#counted = this.#before = 0
    this.#all = true
  }

  /** All that passed, in order. */
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
   * The bytes with their framing, but for what was left out: whole chunks go, others are framed anew. Each range is
   * one whole chunk. null: bytes were held back, so chunks do not tell what passed.
   */
  withoutDropped(bytes: Buffer, ranges: readonly number[]): readonly Uint8Array[] | null {
    if (this.#before > 0 || this.#fates.includes(MIXED)) return null
    const parts: Uint8Array[] = []
    let done = 0
    let piece = 0
    for (let i = 0; i < this.#fates.length; i++) {
      const pieces = this.#ends[i]! < 0 ? [] : this.#emitted.slice(piece, this.#ends[i])
      piece += pieces.length
      if (this.#fates[i] === ALL) continue
      const chunkFrom = i === 0 ? 0 : ranges[2 * i - 1]! + CRLF.length
      if (chunkFrom > done) parts.push(bytes.subarray(done, chunkFrom))
      if (pieces.length > 0) parts.push(...chunkOf(pieces))
      done = ranges[2 * i + 1]! + CRLF.length
    }
    if (done < bytes.length) parts.push(bytes.subarray(done))
    return parts
  }
}
