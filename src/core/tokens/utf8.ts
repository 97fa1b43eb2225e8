/* Restores the long texts of a request, which were cut out of it before it was parsed. */
import { chainWords } from './block-hash.ts'

/**
 * Encodes `text` as UTF-8 at the start of `into`, lone surrogates as U+FFFD. Returns the bytes written. As
 * `TextEncoder.encodeInto`.
 */
export type EncodeUtf8 = (text: string, into: Uint8Array) => number

/** A larger buffer is not kept between prompts, bytes. */
const KEPT_BYTES = 2 * 1024 * 1024

/** Reused buffer for the pieces of a prompt as UTF-8. */
export class Utf8Buffer {
  readonly #encode: EncodeUtf8
  #bytes = new Uint8Array(64 * 1024)
  length = 0

  constructor(encode: EncodeUtf8) {
    this.#encode = encode
  }

  /** `length` bytes since `clear`, then unused space; valid until the next `add`. */
  get bytes(): Uint8Array {
    return this.#bytes
  }

  /**
   * The full 32-bit words of the bytes, in the machine's byte order (little-endian on all server platforms of
   * JavaScript).
   */
  get words(): Uint32Array {
    return new Uint32Array(this.#bytes.buffer, 0, this.length >>> 2)
  }

  clear(): void {
    this.length = 0
    if (this.#bytes.length > KEPT_BYTES) this.#bytes = new Uint8Array(64 * 1024)
  }

  add(text: Text): void {
    if (typeof text !== 'string') return this.#append(text.utf8)
    // A UTF-16 unit is at most three bytes of UTF-8.
    this.#reserve(text.length * 3)
    this.length += this.#encode(text, this.#bytes.subarray(this.length))
  }

  /**
   * Adds as much of `text` as fits into `mostBytes` in all. Returns the length of the rest: in bytes, or in UTF-16
   * units of a string.
   */
  addUpTo(text: Text, mostBytes: number): number {
    const room = Math.max(0, mostBytes - this.length)
    if (typeof text !== 'string') {
      const { utf8 } = text
      if (utf8.length <= room) this.#append(utf8)
      else this.#append(utf8.subarray(0, room))
      return Math.max(0, utf8.length - room)
    }
    this.add(text.length <= room ? text : text.slice(0, room))
    return Math.max(0, text.length - room)
  }

  #append(utf8: Uint8Array): void {
    this.#reserve(utf8.length)
    this.#bytes.set(utf8, this.length)
    this.length += utf8.length
  }

  /**
   * Hash of the content with 53 bits, the most that a number key holds. Native encoding and a pass over words is much
   * faster than a pass over the string.
   */
  hash(): number {
    const state = { lo: this.length, hi: 0x2545f491 }
    const { length } = this
    this.align()
    chainWords(state, this.words, 0, this.words.length)
    this.length = length
    return (state.hi & 0x1fffff) * 2 ** 32 + state.lo
  }

  /** Pads with zeros to a whole word. */
  align(): void {
    this.#reserve(3)
    while (this.length % 4 !== 0) this.#bytes[this.length++] = 0
  }

  #reserve(extra: number): void {
    const needed = this.length + extra
    if (needed <= this.#bytes.length) return
    const larger = new Uint8Array((Math.max(needed, this.#bytes.length * 2) + 3) & ~3)
    larger.set(this.#bytes.subarray(0, this.length))
    this.#bytes = larger
  }
}

/** Maps a placeholder to its text. null: the string is no placeholder. */
export type TextOfMark = (value: string) => Utf8Text | null

/** Members of a request with a prompt or its messages. */
const PROMPTS: ReadonlySet<string> = new Set(['messages', 'prompt', 'input', 'instructions', 'system'])
/** Members of messages and content parts with text. */
const TEXTS: ReadonlySet<string> = new Set(['content', 'text', 'output'])
const NONE: ReadonlySet<string> = new Set()

/**
 * Replaces the placeholders of a parsed request in place: by the `Utf8Text` where prompts are read, elsewhere by a
 * string. Returns the number of replaced placeholders, which lacks those that became names, or whose member was
 * replaced by a later one of the same name.
 */
export function restoreTexts(request: object, textOf: TextOfMark): number {
  const filler = new Filler(textOf)
  filler.members(request, PROMPTS)
  return filler.filled
}

class Filler {
  filled = 0
  readonly #textOf: TextOfMark

  constructor(textOf: TextOfMark) {
    this.#textOf = textOf
  }

  /** @param texts members that are read as texts of a prompt */
  members(parent: object, texts: ReadonlySet<string>): void {
    const fields = parent as Record<string, unknown>
    for (const key of Object.keys(fields)) {
      const before = fields[key]
      // Assigning to it would set the prototype. A placeholder below it counts as lost.
      if (typeof before === 'number' || key === '__proto__') continue
      const after = this.#value(before, texts.has(key))
      if (after !== before) fields[key] = after
    }
  }

  #value(value: unknown, isPrompt: boolean): unknown {
    if (typeof value === 'string') return this.#string(value, isPrompt)
    if (Array.isArray(value)) for (let i = 0; i < value.length; i++) value[i] = this.#value(value[i], isPrompt)
    else if (typeof value === 'object' && value !== null) this.members(value, isPrompt ? TEXTS : NONE)
    return value
  }

  #string(value: string, isPrompt: boolean): unknown {
    const text = this.#textOf(value)
    if (text === null) return value
    this.filled += 1
    return isPrompt ? text : text.toString()
  }
}

/**
 * A long text of a prompt as the received UTF-8. Hashing it needs no string, whose creation costs more than the hash.
 */
export class Utf8Text {
  readonly utf8: Uint8Array
  readonly #decode: (utf8: Uint8Array) => string

  constructor(utf8: Uint8Array, decode: (utf8: Uint8Array) => string) {
    this.utf8 = utf8
    this.#decode = decode
  }

  /** Also used by `join` and `String`. */
  toString(): string {
    return this.#decode(this.utf8)
  }

  /** The original string, for JSON. */
  toJSON(): string {
    return this.toString()
  }
}

export type Text = string | Utf8Text

export const isText = (value: unknown): value is Text => typeof value === 'string' || value instanceof Utf8Text

/** UTF-8 bytes per UTF-16 unit, at most. */
const BYTES_A_CHARACTER = 3

/** Whether the texts of a value, nested ones too, certainly have more characters than `most`. Decodes nothing. */
export function isLonger(value: unknown, most: number): boolean {
  const open = [value]
  let length = 0
  while (open.length > 0 && length <= most) {
    const one = open.pop()
    if (typeof one === 'string') length += one.length
    else if (one instanceof Utf8Text) length += Math.ceil(one.utf8.length / BYTES_A_CHARACTER)
    else if (typeof one === 'object' && one !== null) for (const inner of Object.values(one)) open.push(inner)
  }
  return length > most
}

/** UTF-8 of a short text, lone surrogates as U+FFFD. For other texts `EncodeUtf8` is faster. */
export function utf8Of(text: string): Uint8Array {
  const bytes: number[] = []
  for (const char of text) {
    const code = char.codePointAt(0) as number
    if (code < 0x80) bytes.push(code)
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 0x3f))
    else if (code >= 0xd800 && code <= 0xdfff) bytes.push(0xef, 0xbf, 0xbd)
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f))
    else {
      bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 0x3f), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f))
    }
  }
  return Uint8Array.from(bytes)
}
