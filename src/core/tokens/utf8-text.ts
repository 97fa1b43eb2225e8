/** A long text of a prompt, kept as the UTF-8 it came in: who only hashes it needs no string, which costs more than the hash. */
export class Utf8Text {
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

export type Text = string | Utf8Text

export const isText = (value: unknown): value is Text => typeof value === 'string' || value instanceof Utf8Text

/** A character (a UTF-16 unit) takes no more bytes of UTF-8. */
const BYTES_A_CHARACTER = 3

/** Are there surely more characters than `most` in the texts of a value, inner ones too? Nothing is decoded or put together for it. */
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
