import type { AddedToken } from './vocabulary.ts'

/** Added token found in a text. */
interface TokenMatch {
  readonly id: number
  readonly from: number
  readonly to: number
}

const space = /\p{White_Space}/u

/** Node of a trie of added tokens: the next nodes by UTF-16 unit, and the token that ends here. */
class TrieNode extends Map<string, TrieNode> {
  token: AddedToken | null = null
}

/** Finds added tokens: the leftmost, and of several that start there the longest. */
export class AddedTokenFinder {
  /** A trie, because hundreds of tokens share a prefix: comparing each of them would take seconds for some texts. */
  readonly #root = new TrieNode()
  readonly #first: RegExp
  /** The single first unit of all tokens, usually `<`, which a plain search finds faster. */
  readonly #onlyFirst: string | undefined

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) {
      let node = this.#root
      for (const unit of token.text.split('')) {
        const longer = node.get(unit) ?? new TrieNode()
        node.set(unit, longer)
        node = longer
      }
      node.token = token
    }
    const firsts = [...this.#root.keys()]
    this.#onlyFirst = firsts.length === 1 ? firsts[0] : undefined
    // Without tokens it matches nothing.
    this.#first = new RegExp(`[${firsts.join('').replace(/[\]\\^-]/g, '\\$&')}]`, 'g')
  }

  /** The first token at or after `from`, with the white space it includes. null: none. */
  find(text: string, from: number): TokenMatch | null {
    for (let at = this.#nextFirst(text, from); at >= 0; at = this.#nextFirst(text, at + 1)) {
      const token = this.#longest(text, at)
      if (token !== null) return withWhiteSpace(token, text, at, from)
    }
    return null
  }

  /** Next possible start of an added token, at or after `from`. -1: none. */
  #nextFirst(text: string, from: number): number {
    if (this.#onlyFirst !== undefined) return text.indexOf(this.#onlyFirst, from)
    this.#first.lastIndex = from
    return this.#first.exec(text)?.index ?? -1
  }

  #longest(text: string, at: number): AddedToken | null {
    let token: AddedToken | null = null
    let node = this.#root.get(text.charAt(at))
    for (let i = at + 1; node !== undefined; i++) {
      token = node.token ?? token
      node = node.get(text.charAt(i))
    }
    return token
  }
}

function withWhiteSpace(token: AddedToken, text: string, at: number, minFrom: number): TokenMatch {
  let from = at
  let to = at + token.text.length
  if (token.left) while (from > minFrom && space.test(text.charAt(from - 1))) from--
  if (token.right) while (to < text.length && space.test(text.charAt(to))) to++
  return { id: token.id, from, to }
}
