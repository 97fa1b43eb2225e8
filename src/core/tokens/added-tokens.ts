import type { AddedToken } from './vocabulary.ts'

/** One added token found in a text. */
export interface FoundToken {
  readonly id: number
  readonly from: number
  readonly to: number
}

const space = /\p{White_Space}/u

/** Finds added tokens: the leftmost, and of those that begin there the longest. */
export class AddedTokenFinder {
  /** By first UTF-16 unit, longest first. */
  readonly #byFirst = new Map<string, AddedToken[]>()
  readonly #first: RegExp | null
  /** The only first unit there is, mostly `<`: a plain search is much faster. */
  readonly #onlyFirst: string | null

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens.filter(({ text }) => text !== '')) {
      const first = token.text.charAt(0)
      const same = this.#byFirst.get(first) ?? []
      same.push(token)
      this.#byFirst.set(first, same.sort((a, b) => b.text.length - a.text.length))
    }
    const units = [...this.#byFirst.keys()].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    this.#onlyFirst = this.#byFirst.size === 1 ? ([...this.#byFirst.keys()][0] as string) : null
    this.#first = units.length === 0 ? null : new RegExp(`[${units.join('')}]`, 'g')
  }

  /** The first token at or after `from`, with the white space it swallows; null: none. */
  find(text: string, from: number): FoundToken | null {
    for (let at = this.#nextFirst(text, from); at >= 0; at = this.#nextFirst(text, at + 1)) {
      const tokens = this.#byFirst.get(text.charAt(at)) as readonly AddedToken[]
      for (const token of tokens) if (text.startsWith(token.text, at)) return this.#widened(token, text, at, from)
    }
    return null
  }

  /** Where an added token may begin, at or after `from`; -1: nowhere. */
  #nextFirst(text: string, from: number): number {
    if (this.#onlyFirst !== null) return text.indexOf(this.#onlyFirst, from)
    if (this.#first === null) return -1
    this.#first.lastIndex = from
    return this.#first.exec(text)?.index ?? -1
  }

  #widened(token: AddedToken, text: string, at: number, least: number): FoundToken {
    let from = at
    let to = at + token.text.length
    if (token.left) while (from > least && space.test(text.charAt(from - 1))) from--
    if (token.right) while (to < text.length && space.test(text.charAt(to))) to++
    return { id: token.id, from, to }
  }
}
