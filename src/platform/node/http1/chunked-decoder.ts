import { BROKEN, ChunkParser } from './chunked.ts'

/** Below this many bytes a loop is faster than `copyWithin`. */
const LOOP_BYTES = 32

/**
 * Decodes a chunked body read by read. The payload of a read is moved to its front, so the cost depends on the bytes
 * and not on the number of chunks: a body in one-byte chunks makes no object per chunk.
 */
export class ChunkedDecoder {
  /** Bytes of the last read that belong to the body, framing included. */
  taken = 0
  /** The end of the body has been read. */
  done = false
  malformed = false
  readonly #parser = new ChunkParser()
  readonly #ranges: number[] = []

  /**
   * Moves the payload of a read to its front and returns its length in bytes. Bytes behind the body stay as they are.
   */
  take(bytes: Uint8Array): number {
    const ranges = this.#ranges
    ranges.length = 0
    const end = this.#parser.parse(bytes, ranges)
    this.done = end >= 0
    this.malformed = end === BROKEN
    this.taken = this.done ? end : bytes.length
    let length = 0
    for (let i = 0; i < ranges.length; i += 2) {
      const from = ranges[i]!
      const size = ranges[i + 1]! - from
      if (length !== from) move(bytes, length, from, size)
      length += size
    }
    return length
  }
}

function move(bytes: Uint8Array, to: number, from: number, size: number): void {
  if (size > LOOP_BYTES) bytes.copyWithin(to, from, from + size)
  else for (let i = 0; i < size; i++) bytes[to + i] = bytes[from + i]!
}
