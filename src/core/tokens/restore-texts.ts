/** Puts the long texts of a request, cut out of it before it was parsed, back where they were. */
import type { Utf8Text } from './utf8-text.ts'

/** The text whose mark a string is; null: it is none. */
export type TextOfMark = (value: string) => Utf8Text | null

/** Members of a request that hold a prompt or its messages. */
const PROMPTS: ReadonlySet<string> = new Set(['messages', 'prompt', 'input', 'instructions', 'system'])
/** Members of messages, and of the parts of their content, that hold text. */
const TEXTS: ReadonlySet<string> = new Set(['content', 'text', 'output'])
const NONE: ReadonlySet<string> = new Set()

/**
 * Replaces the marks in a parsed request, in place: by the text as it is where the readers of prompts look for one, and by
 * a string everywhere else. Returns how many it found: a mark that became a name, or whose member a later one of the same
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
