/* Puts the long texts of a request, cut out of it before it was parsed, back where they were. */

/** The text whose mark a string is; null: it is none. */
export type TextOfMark = (value: string) => Utf8Text | null

/** Members of a request that hold a prompt or its messages. */
const PROMPTS: ReadonlySet<string> = new Set(['messages', 'prompt', 'input', 'instructions', 'system'])
/** Members of messages, and of the parts of their content, that hold text. */
const TEXTS: ReadonlySet<string> = new Set(['content', 'text', 'output'])
const NONE: ReadonlySet<string> = new Set()

/**
 * Replaces the marks in a parsed request, in place: by the text as it is where the readers of prompts look for one,
 * and by
 * a string everywhere else. Returns how many it found: a mark that became a name, or whose member a later one of the
 * same
 * name has replaced, is not among them.
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

  /** `texts`: the members that are read as texts of a prompt. */
  members(parent: object, texts: ReadonlySet<string>): void {
    const fields = parent as Record<string, unknown>
    for (const key of Object.keys(fields)) {
      const before = fields[key]
      // Assigned to, this one would be the prototype. A mark below it counts as lost.
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
 * A long text of a prompt, kept as the UTF-8 it came in: who only hashes it needs no string, which costs more than the
 * hash.
 */
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

/**
 * Are there surely more characters than `most` in the texts of a value, inner ones too? Nothing is decoded or put
 * together for it.
 */
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
