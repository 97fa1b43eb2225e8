/**
 * Rules of vocabularies whose tokens are made of characters (SentencePiece: Gemma, Llama 2, Mistral, T5): blanks become
 * the mark `▁`, and words may be divided before it.
 */
import type { NormalStep } from './normalize.ts'
import type { PieceEnd } from './pre-tokenize.ts'

export interface CharacterRules {
  readonly model: 'bpe' | 'unigram'
  readonly steps: readonly NormalStep[]
  readonly words: WordRule
  /** Ids of the tokens of single bytes, which stand for characters without a token. null: there are none. */
  readonly bytes: readonly number[] | null
  /** Id of the unknown token. -1: nothing is unknown. */
  readonly unknown: number
}

/**
 * `whole`: the text is not divided. `metaspace`: blanks become marks. `words`: white space divides words, and each gets
 * a mark.
 */
export type WordRule =
  | { readonly kind: 'whole' }
  | { readonly kind: 'metaspace'; readonly prefix: 'always' | 'first' | 'never'; readonly split: boolean }
  | { readonly kind: 'words' }

export const MARK = '▁'
const MARK_CODE = 0x2581
const MARK_BYTES = 3
const whiteSpace = /\p{White_Space}+/u

/** Replaces blanks by marks as the rule says. `atStart`: the text is the start of the prompt. */
export function withMarks(rule: WordRule, text: string, atStart: boolean): string {
  if (rule.kind === 'whole') return text
  if (rule.kind === 'words') {
    const words = text.split(whiteSpace)
    return words.map((word) => (word === '' || word.startsWith(MARK) ? word : MARK + word)).join('')
  }
  const marked = text.replaceAll(' ', MARK)
  const prefixed = rule.prefix === 'always' || (rule.prefix === 'first' && atStart)
  return prefixed && marked !== '' && !marked.startsWith(MARK) ? MARK + marked : marked
}

/** UTF-8 bytes of the character that starts with `lead`. 1 for a byte inside a character. */
export function widthOf(lead: number): number {
  if (lead < 0xc0) return 1
  if (lead < 0xe0) return 2
  return lead < 0xf0 ? 3 : 4
}

/** Code point of the UTF-8 character at `at`. */
export function codeAt(bytes: Uint8Array, at: number): number {
  const lead = bytes[at] as number
  if (lead < 0x80) return lead
  const second = (bytes[at + 1] as number) & 0x3f
  if (lead < 0xe0) return ((lead & 0x1f) << 6) | second
  const third = (bytes[at + 2] as number) & 0x3f
  if (lead < 0xf0) return ((lead & 0x0f) << 12) | (second << 6) | third
  return ((lead & 0x07) << 18) | (second << 12) | (third << 6) | ((bytes[at + 3] as number) & 0x3f)
}

const PAIR_BITS = 21

/**
 * Pairs of neighbouring characters inside tokens, as bits by a hash. No merge crosses two characters that no token has
 * side by side, so a text may be divided there: equal words are then merged once.
 */
export class CharacterPairs {
  readonly #bits = new Uint32Array(1 << (PAIR_BITS - 5))

  /** Adds the pairs of the token `bytes[from, to)`. */
  add(bytes: Uint8Array, from: number, to: number): void {
    for (let at = from; at < to;) {
      const next = at + widthOf(bytes[at] as number)
      if (next >= to) return
      const bit = pairBit(codeAt(bytes, at), codeAt(bytes, next))
      this.#bits[bit >>> 5] = (this.#bits[bit >>> 5] as number) | (1 << (bit & 31))
      at = next
    }
  }

  /** Whether a token may have both side by side. */
  has(first: number, second: number): boolean {
    const bit = pairBit(first, second)
    return ((this.#bits[bit >>> 5] as number) & (1 << (bit & 31))) !== 0
  }
}

const pairBit = (first: number, second: number): number =>
  Math.imul(Math.imul(first, 0x9e3779b1) ^ second, 0x85ebca6b) >>> (32 - PAIR_BITS)

/** Divides where no merge crosses and, if `split`, before each mark. */
export function endOfPairs(pairs: CharacterPairs, split: boolean): PieceEnd {
  return ({ bytes }, at, end) => {
    let code = codeAt(bytes, at)
    let i = at + widthOf(bytes[at] as number)
    while (i < end) {
      const next = codeAt(bytes, i)
      if ((split && next === MARK_CODE) || !pairs.has(code, next)) return i
      code = next
      i += widthOf(bytes[i] as number)
    }
    return end
  }
}

/** Divides before each mark. */
export const endOfWord: PieceEnd = ({ bytes }, at, end) => {
  for (let i = at + 1; i <= end - MARK_BYTES; i++) {
    if (bytes[i] === 0xe2 && bytes[i + 1] === 0x96 && bytes[i + 2] === 0x81) return i
  }
  return end
}
