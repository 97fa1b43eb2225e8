/** Texts inside the bytes of a JSON document: RFC 8259, section 7. */

const MIN_PLAIN = 0x20

const UNICODE = 0x75

const HIGH_BITS = 0x80808080 | 0

/** Meaning of the byte after a backslash; 0: invalid, or `u`. */
const MEANINGS = new Uint8Array(256)

for (const [letter, meaning] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t'])
  MEANINGS[letter!.charCodeAt(0)] = meaning!.charCodeAt(0)

/** Value of a hexadecimal digit; -1: not a digit. */
const DIGITS = new Int8Array(256).fill(-1)

for (const digit of '0123456789abcdefABCDEF') DIGITS[digit.charCodeAt(0)] = Number.parseInt(digit, 16)

// Four bytes at a time (Mycroft's test for a zero byte, and the same for one below a limit): byte by byte would take
// as long as JSON.parse.
const below = (word: number): number => ((word - 0x20202020) | 0) & ~word

const isZero = (word: number): number => ((word - 0x01010101) | 0) & ~word

const hasSpecial = (word: number): boolean =>
  ((below(word) | isZero(word ^ 0x22222222) | isZero(word ^ 0x5c5c5c5c)) & HIGH_BITS) !== 0

/** Whether the bytes `[from, to)` have a control character, which JSON requires to be escaped. */
export function hasControl(document: DataView, from: number, to: number): boolean {
  let found = 0
  let at = from
  for (; at + 16 <= to; at += 16) {
    found |=
      below(document.getInt32(at, true)) |
      below(document.getInt32(at + 4, true)) |
      below(document.getInt32(at + 8, true)) |
      below(document.getInt32(at + 12, true))
  }
  for (; at < to; at++) found |= document.getUint8(at) < MIN_PLAIN ? HIGH_BITS : 0
  return (found & HIGH_BITS) !== 0
}

/** Returned for a text that is not read to its end, so that other requests get a turn. */
export const UNFINISHED = -2

/** Bytes of a turn: about 10 ms of escapes. */
const SLICE_BYTES = 2 * 1024 * 1024

/** Unescapes the texts of a document, one after the other, into one shared buffer. */
export class Unescaper {
  readonly #document: DataView
  readonly #bytes: Uint8Array
  readonly #out: DataView
  /** Start of the next text, behind those that were taken. */
  #from = 0
  #to = 0
  /** Position in an unfinished text. */
  #at = 0

  constructor(document: DataView) {
    this.#document = document
    // Unescaped text is never longer than its source, except for the rest of a word. Not filled: unused pages cost
    // nothing.
    this.#bytes = Buffer.allocUnsafeSlow(document.byteLength + 4)
    this.#out = new DataView(this.#bytes.buffer)
  }

  /** Returns the text that was read last, as UTF-8. The next text overwrites one that is not taken. */
  take(): Uint8Array {
    const text = this.#bytes.subarray(this.#from, this.#to)
    this.#from = this.#to
    return text
  }

  /**
   * Reads a text from its first byte on. Returns where its closing quote is; -1: that is no JSON, or half a surrogate
   * pair, which UTF-8 cannot hold; `UNFINISHED`: `resume` goes on.
   */
  read(start: number): number {
    this.#at = start
    this.#to = this.#from
    return this.resume()
  }

  resume(): number {
    const document = this.#document
    const out = this.#out
    const end = document.byteLength
    let at = this.#at
    let to = this.#to
    const stop = Math.min(end, at + SLICE_BYTES)
    for (;;) {
      for (; at + 4 <= stop; at += 4, to += 4) {
        const word = document.getInt32(at, true)
        if (hasSpecial(word)) break
        out.setInt32(to, word, true)
      }
      if (at >= end) return -1
      if (at >= stop) {
        this.#at = at
        this.#to = to
        return UNFINISHED
      }
      // Byte by byte through the word that has a special character.
      for (const last = Math.min(at + 4, end); at < last;) {
        const byte = document.getUint8(at)
        if (byte === QUOTE) {
          this.#to = to
          return at
        }
        if (byte === BACKSLASH) {
          const meaning = at + 1 < end ? MEANINGS[document.getUint8(at + 1)]! : 0
          if (meaning !== 0) {
            out.setUint8(to++, meaning)
            at += 2
            continue
          }
          const code = codePointAt(document, at)
          if (code < 0) return -1
          to = putUtf8(out, to, code)
          at += code > 0xffff ? 12 : 6
        } else if (byte < MIN_PLAIN) return -1
        else {
          out.setUint8(to++, byte)
          at += 1
        }
      }
    }
  }
}

/** Code point of `\uXXXX` or of a surrogate pair; -1: invalid. */
function codePointAt(document: DataView, at: number): number {
  const unit = unitAt(document, at)
  if (unit < 0xd800 || unit > 0xdfff) return unit
  const low = unitAt(document, at + 6)
  return unit > 0xdbff || low < 0xdc00 || low > 0xdfff ? -1 : 0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff)
}

function unitAt(document: DataView, at: number): number {
  if (at + 6 > document.byteLength || document.getUint8(at) !== BACKSLASH || document.getUint8(at + 1) !== UNICODE)
    return -1
  let unit = 0
  for (let i = at + 2; i < at + 6; i++) {
    const digit = DIGITS[document.getUint8(i)]!
    if (digit < 0) return -1
    unit = (unit << 4) | digit
  }
  return unit
}

/** Writes a code point and returns the position behind it. */
function putUtf8(out: DataView, at: number, code: number): number {
  if (code < 0x80) {
    out.setUint8(at, code)
    return at + 1
  }
  const tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3
  // The high bits of the first byte give the number of bytes that follow.
  out.setUint8(at, ((0xff00 >> (tail + 1)) & 0xff) | (code >> (6 * tail)))
  for (let i = 1; i <= tail; i++) out.setUint8(at + i, 0x80 | ((code >> (6 * (tail - i))) & 0x3f))
  return at + 1 + tail
}

export const QUOTE = 0x22

export const BACKSLASH = 0x5c
