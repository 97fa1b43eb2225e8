import type { AddedToken } from './vocabulary.ts'

/** One added token found in a text. */
export interface FoundToken {
  readonly id: number
  readonly from: number
  readonly to: number
}

const space = /\p{White_Space}/u

/** What may follow the beginning of an added token, by UTF-16 unit, and the token that it is already. */
class Beginning extends Map<string, Beginning> {
  token: AddedToken | null = null
}

/** Finds added tokens: the leftmost, and of those that begin there the longest. */
export class AddedTokenFinder {
  /** Hundreds of tokens share their first letters: trying one after the other wherever those stand would hold the thread for seconds. */
  readonly #none = new Beginning()
  readonly #first: RegExp
  /** The only first unit there is, mostly `<`: a plain search is much faster. */
  readonly #onlyFirst: string | undefined

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) {
      let beginning = this.#none
      for (const unit of token.text.split('')) {
        const longer = beginning.get(unit) ?? new Beginning()
        beginning.set(unit, longer)
        beginning = longer
      }
      beginning.token = token
    }
    const firsts = [...this.#none.keys()]
    this.#onlyFirst = firsts.length === 1 ? firsts[0] : undefined
    // Without tokens it matches nothing.
    this.#first = new RegExp(`[${firsts.join('').replace(/[\]\\^-]/g, '\\$&')}]`, 'g')
  }

  /** The first token at or after `from`, with the white space it swallows; null: none. */
  find(text: string, from: number): FoundToken | null {
    for (let at = this.#nextFirst(text, from); at >= 0; at = this.#nextFirst(text, at + 1)) {
      const token = this.#longest(text, at)
      if (token !== null) return widened(token, text, at, from)
    }
    return null
  }

  /** Where an added token may begin, at or after `from`; -1: nowhere. */
  #nextFirst(text: string, from: number): number {
    if (this.#onlyFirst !== undefined) return text.indexOf(this.#onlyFirst, from)
    this.#first.lastIndex = from
    return this.#first.exec(text)?.index ?? -1
  }

  #longest(text: string, at: number): AddedToken | null {
    let token: AddedToken | null = null
    let beginning = this.#none.get(text.charAt(at))
    for (let i = at + 1; beginning !== undefined; i++) {
      token = beginning.token ?? token
      beginning = beginning.get(text.charAt(i))
    }
    return token
  }
}

function widened(token: AddedToken, text: string, at: number, least: number): FoundToken {
  let from = at
  let to = at + token.text.length
  if (token.left) while (from > least && space.test(text.charAt(from - 1))) from--
  if (token.right) while (to < text.length && space.test(text.charAt(to))) to++
  return { id: token.id, from, to }
}
