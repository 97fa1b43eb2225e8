/**
 * Decodes a chunked body (RFC 9112, 7.1) read by read. The payload of a read is moved to its front, so the cost depends
 * on the bytes and not on the number of chunks: a body in one-byte chunks makes no object per chunk.
 */
import { readHeadFields } from '../http1-server/header-fields.ts'

const CR = 13
const LF = 10
const SEMICOLON = 59
const TAB = 9
const DELETE = 127
/** More hexadecimal digits than a size of 2^48 has, leading zeros included. */
const MAX_SIZE_DIGITS = 16
const MAX_SIZE = 2 ** 48
/** Chunk extensions and trailers of one body together. node:http has the same limit. */
const MAX_EXTRA_BYTES = 16 * 1024
/** Below this many bytes a loop is faster than `copyWithin`. */
const LOOP_BYTES = 32

const SIZE = 0
const EXTENSION = 1
const SIZE_LF = 2
const DATA = 3
const DATA_CR = 4
const DATA_LF = 5
const TRAILERS = 6
const DONE = 7
const MALFORMED = 8

/** Value of each hexadecimal digit by its code; 255: none. */
const HEX = new Uint8Array(256).fill(255)
for (const [value, digit] of [...'0123456789abcdef'].entries())
  HEX[digit.charCodeAt(0)] = HEX[digit.toUpperCase().charCodeAt(0)] = value

export class ChunkedDecoder {
  /** Bytes of the last read that belong to the body, framing included. */
  taken = 0
  #state = SIZE
  #digits = 0
  /** Of the chunk; in `DATA` what is left of it. */
  #size = 0
  #extraBytes = 0
  /** What followed the last chunk, in Latin-1. */
  #trailers = ''

  /** The end of the body has been read. */
  get done(): boolean {
    return this.#state === DONE
  }

  get malformed(): boolean {
    return this.#state === MALFORMED
  }

  /** Moves the payload of a read to its front and returns its length in bytes. Bytes behind the body stay as they are. */
  take(bytes: Uint8Array): number {
    let length = 0
    let at = 0
    const end = bytes.length
    while (at < end && this.#state < DONE) {
      if (this.#state === DATA) {
        const size = Math.min(this.#size, end - at)
        if (length !== at) move(bytes, length, at, size)
        length += size
        at += size
        this.#size -= size
        if (this.#size === 0) this.#state = DATA_CR
      } else this.#step(bytes[at++]!)
    }
    this.taken = at
    return length
  }

  #step(byte: number): void {
    switch (this.#state) {
      case SIZE:
        return this.#sizeByte(byte)
      case EXTENSION:
        if (byte === CR) this.#state = SIZE_LF
        else if ((byte < 32 && byte !== TAB) || byte === DELETE || ++this.#extraBytes > MAX_EXTRA_BYTES)
          this.#state = MALFORMED
        return
      case SIZE_LF:
        if (byte !== LF) this.#state = MALFORMED
        else this.#state = this.#size > 0 ? DATA : TRAILERS
        return
      case DATA_CR:
        this.#state = byte === CR ? DATA_LF : MALFORMED
        return
      case DATA_LF:
        this.#state = byte === LF ? SIZE : MALFORMED
        this.#size = this.#digits = 0
        return
      default:
        this.#trailerByte(byte)
    }
  }

  #sizeByte(byte: number): void {
    const value = HEX[byte]!
    if (value < 16) {
      this.#size = this.#size * 16 + value
      if (++this.#digits > MAX_SIZE_DIGITS || this.#size > MAX_SIZE) this.#state = MALFORMED
    } else if (this.#digits === 0) this.#state = MALFORMED
    else if (byte === CR) this.#state = SIZE_LF
    else this.#state = byte === SEMICOLON ? EXTENSION : MALFORMED
  }

  /** Trailers are read to find the end of the body, and dropped. */
  #trailerByte(byte: number): void {
    this.#trailers += String.fromCharCode(byte)
    if (++this.#extraBytes > MAX_EXTRA_BYTES) this.#state = MALFORMED
    else if (this.#trailers === '\r\n') this.#state = DONE
    else if (byte === LF && this.#trailers.endsWith('\r\n\r\n'))
      this.#state = readHeadFields(`\r\n${this.#trailers.slice(0, -4)}`, () => true) ? DONE : MALFORMED
  }
}

function move(bytes: Uint8Array, to: number, from: number, size: number): void {
  if (size > LOOP_BYTES) bytes.copyWithin(to, from, from + size)
  else for (let i = 0; i < size; i++) bytes[to + i] = bytes[from + i]!
}
