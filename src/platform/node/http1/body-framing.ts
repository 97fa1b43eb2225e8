/** Finds the payload and the end of one response body in any framing. */
import type { BodyKind } from './response-head.ts'
import { BROKEN, ChunkParser, MORE } from './chunked.ts'

export { BROKEN, MORE }

export class BodyFraming {
  readonly kind: BodyKind
  /** Payload of the bytes last consumed: from, to, from, to … A list for each read: to empty one costs more. */
  ranges: number[] = []
  readonly chunks: ChunkParser | null
  /** The last byte of the message has been consumed. */
  ended = false
  /** Declared bytes when `kind` is `length`. */
  readonly length: number
  #left: number

  constructor(kind: BodyKind, length: number) {
    this.kind = kind
    this.length = length
    this.#left = length
    this.chunks = kind === 'chunked' ? new ChunkParser(true) : null
  }

  /** The body has no bytes. */
  get empty(): boolean {
    return this.kind === 'none' || (this.kind === 'length' && this.#left === 0)
  }

  /** The next byte starts a chunk; always true for bodies that are not chunked. */
  get aligned(): boolean {
    return this.chunks === null || this.chunks.atBoundary
  }

  /** Returns the index after the last byte of the message, MORE or BROKEN. */
  consume(bytes: Uint8Array): number {
    this.ranges = []
    const end = this.#consume(bytes)
    this.ended = end >= 0
    return end
  }

  /** Handles the end of a message by the close of its connection. */
  finish(): void {
    this.ranges = []
    this.ended = true
  }

  #consume(bytes: Uint8Array): number {
    if (this.chunks !== null) return this.chunks.parse(bytes, this.ranges)
    if (this.kind === 'none') return 0
    const to = this.kind === 'length' ? Math.min(bytes.length, this.#left) : bytes.length
    if (to > 0) this.ranges.push(0, to)
    if (this.kind === 'close') return MORE
    this.#left -= to
    return this.#left === 0 ? to : MORE
  }
}
