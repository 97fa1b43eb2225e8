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
const BYTES_PER_UNIT = 3

/** Whether the texts of a value, nested ones too, certainly have more characters than `most`. Decodes nothing. */
export function isLonger(value: unknown, max: number): boolean {
  const open = [value]
  let length = 0
  while (open.length > 0 && length <= max) {
    const one = open.pop()
    if (typeof one === 'string') length += one.length
    else if (one instanceof Utf8Text) length += Math.ceil(one.utf8.length / BYTES_PER_UNIT)
    else if (typeof one === 'object' && one !== null) for (const inner of Object.values(one)) open.push(inner)
  }
  return length > max
}
