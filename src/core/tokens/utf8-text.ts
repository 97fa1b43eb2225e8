/* Restores the long texts of a request, which were cut out of it before it was parsed. */

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
