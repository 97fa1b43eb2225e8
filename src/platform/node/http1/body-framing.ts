/** Where one answer's body ends, whatever framing it came in. */
import type { BodyKind } from './response-head.ts'
import { BROKEN, ChunkParser, MORE } from './chunked.ts'

export { BROKEN, MORE }

export class BodyFraming {
  readonly kind: BodyKind
  /** Payload of the bytes last consumed: from, to, from, to … */
  readonly ranges: number[] = []
  readonly chunks: ChunkParser | null
  /** The message's last byte has been consumed. */
  ended = false
  /** Bytes the head promised when `kind` is `length`. */
  readonly length: number
  #left: number

  constructor(kind: BodyKind, length: number) {
    this.kind = kind
    this.length = length
    this.#left = length
    this.chunks = kind === 'chunked' ? new ChunkParser() : null
  }

  /** Nothing to wait for. */
  get empty(): boolean {
    return this.kind === 'none' || (this.kind === 'length' && this.#left === 0)
  }

  /** No chunk is half passed; true for bodies without chunks. */
  get aligned(): boolean {
    return this.chunks === null || this.chunks.atBoundary
  }

  /** Index after the last byte of the message, MORE, or BROKEN. */
  consume(bytes: Uint8Array): number {
    this.ranges.length = 0
    const end = this.#consume(bytes)
    this.ended = end >= 0
    return end
  }

  /** The connection's close ended the message. */
  finish(): void {
    this.ranges.length = 0
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
