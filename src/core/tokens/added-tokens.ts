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

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens.filter(({ text }) => text !== '')) {
      const first = token.text.charAt(0)
      const same = this.#byFirst.get(first) ?? []
      same.push(token)
      this.#byFirst.set(first, same.sort((a, b) => b.text.length - a.text.length))
    }
    const units = [...this.#byFirst.keys()].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    this.#first = units.length === 0 ? null : new RegExp(`[${units.join('')}]`, 'g')
  }

  /** The first token at or after `from`, with the white space it swallows; null: none. */
  find(text: string, from: number): FoundToken | null {
    const first = this.#first
    if (first === null) return null
    first.lastIndex = from
    for (let hit = first.exec(text); hit !== null; hit = first.exec(text)) {
      const tokens = this.#byFirst.get(hit[0]) as readonly AddedToken[]
      for (const token of tokens) if (text.startsWith(token.text, hit.index)) return this.#widened(token, text, hit.index, from)
    }
    return null
  }

  #widened(token: AddedToken, text: string, at: number, least: number): FoundToken {
    let from = at
    let to = at + token.text.length
    if (token.left) while (from > least && space.test(text.charAt(from - 1))) from--
    if (token.right) while (to < text.length && space.test(text.charAt(to))) to++
    return { id: token.id, from, to }
  }
}
