/** Restores the long texts of a request, which were replaced by placeholders before it was parsed. */
import type { Utf8Text } from './utf8-text.ts'

/** Maps a placeholder to its text. null: the string is no placeholder. */
type TextOfPlaceholder = (value: string) => Utf8Text | null

/** Names of members that are read as texts of a prompt. */
interface PromptMembers {
  /** Of the request: its prompt or messages. */
  readonly request: ReadonlySet<string>
  /** Of messages and content parts. */
  readonly part: ReadonlySet<string>
}

const NONE: ReadonlySet<string> = new Set()

/**
 * Replaces the placeholders of a parsed request in place: by the `Utf8Text` where prompts are read, elsewhere by a
 * string. Returns the number of replaced placeholders, which lacks those that became names, or whose member was
 * replaced by a later one of the same name.
 */
export function restoreTexts(request: object, names: PromptMembers, textOf: TextOfPlaceholder): number {
  const filler = new TextRestorer(names.part, textOf)
  filler.members(request, names.request)
  return filler.restored
}

class TextRestorer {
  restored = 0
  readonly #partNames: ReadonlySet<string>
  readonly #textOf: TextOfPlaceholder

  constructor(partNames: ReadonlySet<string>, textOf: TextOfPlaceholder) {
    this.#partNames = partNames
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
    else if (typeof value === 'object' && value !== null) this.members(value, isPrompt ? this.#partNames : NONE)
    return value
  }

  #string(value: string, isPrompt: boolean): unknown {
    const text = this.#textOf(value)
    if (text === null) return value
    this.restored += 1
    return isPrompt ? text : text.toString()
  }
}
