/** Chunked framing (RFC 9112, section 7.1): one parser for requests and answers, and the framing of our own chunks. */
import { readHeadFields } from './head-fields.ts'

export const CRLF = Buffer.from('\r\n')

export const LAST_CHUNK = Buffer.from('0\r\n\r\n')

/** A chunk without bytes would end the body. */
export const hasBytes = (pieces: readonly Uint8Array[]): boolean => pieces.some(({ length }) => length > 0)

/** One chunk that holds all pieces. */
export function chunkOf(pieces: readonly Uint8Array[]): readonly Uint8Array[] {
  let size = 0
  for (const piece of pieces) size += piece.length
  return [Buffer.from(`${size.toString(16)}\r\n`, 'latin1'), ...pieces, CRLF]
}

/** The body goes on. */
export const MORE = -1

/** The framing is malformed. */
export const BROKEN = -2

const CR = 13

const LF = 10

const TAB = 9

const DELETE = 127

const SEMICOLON = 59

/** Leading zeros included. */
const MAX_SIZE_DIGITS = 16

/** Bytes of one chunk. */
const MAX_SIZE = 2 ** 32

/** Bytes of chunk extensions and trailers of one body together. node:http has the same limit. */
const MAX_EXTRA_BYTES = 16 * 1024

const SIZE = 0

const EXTENSION = 1

const SIZE_LF = 2

const DATA = 3

const DATA_CR = 4

const DATA_LF = 5

const TRAILERS = 6

/** Blanks between the size and an extension or the end of the line. */
const BLANKS = 7

const SPACE = 32

const QUOTE = 34

/** Value of each hexadecimal digit by its code; 255: none. */
const HEX = new Uint8Array(256).fill(255)

for (const [value, digit] of [...'0123456789abcdef'].entries())
  HEX[digit.charCodeAt(0)] = HEX[digit.toUpperCase().charCodeAt(0)] = value

/** Finds the payload and the end of a chunked body, read by read, without a copy. */
export class ChunkParser {
  /**
   * Index in the last read after the line of the last (empty) chunk, where trailers begin; 0: that line was not in it.
   */
  afterLastChunk = 0
  /**
   * Indices of blanks behind sizes and in extensions in the last read. They are not forwarded: some clients refuse
   * them.
   */
  readonly blanks: number[] = []
  /** The body has trailer fields. They are not forwarded. */
  hasTrailers = false
  readonly #allowsBlanks: boolean
  #state = SIZE
  #digits = 0
  /** Bytes of the chunk; in `DATA` those that are still to come. */
  #size = 0
  #extraBytes = 0
  /** Inside the quotes of an extension's value. */
  #isQuoted = false
  /** Bytes after the last chunk, in Latin-1. */
  #trailers = ''

  /** @param allowsBlanks blanks may follow a size, as some servers send them (RFC 9112, section 7.1.1: BWS) */
  constructor(allowsBlanks = false) {
    this.#allowsBlanks = allowsBlanks
  }

  /** The next byte starts a chunk, or another message. */
  get atBoundary(): boolean {
    return this.#state === SIZE && this.#digits === 0
  }

  /** Returns the index after the last byte of the body, MORE or BROKEN. Appends the payload to `ranges` as from, to. */
  parse(bytes: Uint8Array, ranges: number[]): number {
    this.afterLastChunk = 0
    // Setting a length costs more than the test, and nearly no engine sends blanks.
    if (this.blanks.length > 0) this.blanks.length = 0
    const end = bytes.length
    for (let at = 0; at < end;) {
      if (this.#state === DATA) {
        const to = Math.min(end, at + this.#size)
        ranges.push(at, to)
        this.#size -= to - at
        at = to
        if (this.#size === 0) this.#state = DATA_CR
        continue
      }
      const result = this.#step(bytes[at++]!, at)
      if (result !== MORE) return result
    }
    return MORE
  }

  /** `after`: the index after the byte. */
  #step(byte: number, after: number): number {
    switch (this.#state) {
      case SIZE:
        return this.#sizeByte(byte, after)
      case EXTENSION:
        if (this.#allowsBlanks) this.#noteExtensionByte(byte, after)
        if (byte === CR) this.#state = SIZE_LF
        else if ((byte < 32 && byte !== TAB) || byte === DELETE || ++this.#extraBytes > MAX_EXTRA_BYTES) return BROKEN
        return MORE
      case BLANKS:
        return this.#blankByte(byte, after)
      case SIZE_LF:
        return this.#sizeEnd(byte, after)
      case DATA_CR:
        this.#state = DATA_LF
        return byte === CR ? MORE : BROKEN
      case DATA_LF:
        this.#state = SIZE
        return byte === LF ? MORE : BROKEN
      default:
        return this.#trailerByte(byte, after)
    }
  }

  #sizeByte(byte: number, after: number): number {
    const value = HEX[byte]!
    if (value < 16) {
      this.#size = this.#size * 16 + value
      return ++this.#digits > MAX_SIZE_DIGITS || this.#size >= MAX_SIZE ? BROKEN : MORE
    }
    if (this.#digits === 0) return BROKEN
    return this.#allowsBlanks ? this.#blankByte(byte, after) : this.#sizeLineByte(byte)
  }

  #blankByte(byte: number, after: number): number {
    if (byte !== SPACE && byte !== TAB) return this.#sizeLineByte(byte)
    this.#state = BLANKS
    this.blanks.push(after - 1)
    return ++this.#extraBytes > MAX_EXTRA_BYTES ? BROKEN : MORE
  }

  /** Blanks around names and values of extensions; those in quotes belong to a value. */
  #noteExtensionByte(byte: number, after: number): void {
    if (byte === QUOTE) this.#isQuoted = !this.#isQuoted
    else if (!this.#isQuoted && (byte === SPACE || byte === TAB)) this.blanks.push(after - 1)
  }

  /** The byte after a size and its blanks. */
  #sizeLineByte(byte: number): number {
    if (byte !== CR && byte !== SEMICOLON) return BROKEN
    this.#state = byte === CR ? SIZE_LF : EXTENSION
    return MORE
  }

  #sizeEnd(byte: number, after: number): number {
    if (byte !== LF) return BROKEN
    this.#digits = 0
    this.#isQuoted = false
    if (this.#size > 0) this.#state = DATA
    else {
      this.#state = TRAILERS
      this.afterLastChunk = after
    }
    return MORE
  }

  #trailerByte(byte: number, after: number): number {
    this.#trailers += String.fromCharCode(byte)
    if (++this.#extraBytes > MAX_EXTRA_BYTES) return BROKEN
    if (this.#trailers === '\r\n') {
      this.#state = SIZE
      return after
    }
    if (byte !== LF || !this.#trailers.endsWith('\r\n\r\n')) {
      this.hasTrailers ||= byte !== CR
      return MORE
    }
    this.#state = SIZE
    return readHeadFields(`\r\n${this.#trailers.slice(0, -4)}`, () => true) ? after : BROKEN
  }
}
