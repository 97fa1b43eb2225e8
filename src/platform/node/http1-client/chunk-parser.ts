/** Chunked framing (RFC 9112, 7.1) walked without a copy: where does the message end, where is payload? */

const SIZE = 0
const EXTENSION = 1
const SIZE_LF = 2
const DATA = 3
const DATA_CR = 4
const DATA_LF = 5
const TRAILER = 6
const TRAILER_END_LF = 7
const TRAILER_LINE = 8
const TRAILER_LINE_LF = 9

const EXTENSION_LIMIT_BYTES = 4096
const TRAILER_LIMIT_BYTES = 16_384
/** 8 hex digits: no chunk of an engine is longer than 4 GiB. */
const SIZE_DIGITS = 8

export const MORE = -1
export const BROKEN = -2

export class ChunkWalker {
  /** Index in the chunk last walked after the line of the last (empty) chunk; what follows it are trailers. 0: none here. */
  afterLastChunk = 0
  /** Trailer fields were seen. They are not passed on. */
  trailers = false
  #state = SIZE
  #left = 0
  #digits = 0
  #extra = 0

  /** No chunk is half passed. */
  get aligned(): boolean {
    return this.#state === SIZE && this.#digits === 0
  }

  /** Index after the last byte of the message, MORE, or BROKEN. Payload ranges are pushed as from, to. */
  walk(bytes: Uint8Array, ranges: number[]): number {
    this.afterLastChunk = 0
    const length = bytes.length
    let at = 0
    while (at < length) {
      if (this.#state === DATA) {
        const to = Math.min(length, at + this.#left)
        ranges.push(at, to)
        this.#left -= to - at
        at = to
        if (this.#left === 0) this.#state = DATA_CR
        continue
      }
      const verdict = this.#step(bytes[at++]!, at)
      if (verdict !== MORE) return verdict
    }
    return MORE
  }

  #step(byte: number, after: number): number {
    switch (this.#state) {
      case SIZE:
        return this.#size(byte)
      case EXTENSION:
        if (byte === 13) this.#state = SIZE_LF
        else if (byte === 10 || ++this.#extra > EXTENSION_LIMIT_BYTES) return BROKEN
        return MORE
      case SIZE_LF:
        return this.#sizeEnd(byte, after)
      case DATA_CR:
        return this.#expect(byte, 13, DATA_LF)
      case DATA_LF:
        return this.#expect(byte, 10, SIZE)
      case TRAILER:
        if (byte === 13) this.#state = TRAILER_END_LF
        else {
          this.#state = TRAILER_LINE
          this.trailers = true
        }
        return MORE
      case TRAILER_END_LF:
        if (byte !== 10) return BROKEN
        this.#state = SIZE
        return after
      case TRAILER_LINE:
        if (byte === 13) this.#state = TRAILER_LINE_LF
        else if (byte === 10 || ++this.#extra > TRAILER_LIMIT_BYTES) return BROKEN
        return MORE
      default:
        return this.#expect(byte, 10, TRAILER)
    }
  }

  #expect(byte: number, wanted: number, next: number): number {
    if (byte !== wanted) return BROKEN
    this.#state = next
    return MORE
  }

  #size(byte: number): number {
    const digit = hexDigit(byte)
    if (digit >= 0) {
      if (++this.#digits > SIZE_DIGITS) return BROKEN
      this.#left = this.#left * 16 + digit
      return MORE
    }
    if (this.#digits === 0) return BROKEN
    if (byte === 13) this.#state = SIZE_LF
    else if (byte === 59) {
      this.#state = EXTENSION
      this.#extra = 0
    } else return BROKEN
    return MORE
  }

  #sizeEnd(byte: number, after: number): number {
    if (byte !== 10) return BROKEN
    this.#digits = 0
    this.#extra = 0
    if (this.#left > 0) this.#state = DATA
    else {
      this.#state = TRAILER
      this.afterLastChunk = after
    }
    return MORE
  }
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48
  const lower = byte | 32
  return lower >= 97 && lower <= 102 ? lower - 87 : -1
}
