/** A long text of a prompt, kept as the UTF-8 it came in: who only hashes it needs no string, which costs more than the hash. */
export class LongText {
  readonly utf8: Uint8Array
  readonly #decode: (utf8: Uint8Array) => string

  constructor(utf8: Uint8Array, decode: (utf8: Uint8Array) => string) {
    this.utf8 = utf8
    this.#decode = decode
  }

  /** Also what `join` and `String` make of it. */
  toString(): string {
    return this.#decode(this.utf8)
  }

  /** As JSON it is the string that it was. */
  toJSON(): string {
    return this.toString()
  }
}

export type Text = string | LongText

export const isText = (value: unknown): value is Text => typeof value === 'string' || value instanceof LongText
