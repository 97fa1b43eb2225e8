/**
 * Rules of vocabularies whose tokens are made of characters (SentencePiece: Gemma, Llama 2, Mistral, T5): blanks become
 * the mark `▁`, and words may be divided before it.
 */
import type { CharacterPairs } from './character-pairs.ts'
import type { NormalStep } from './normalize.ts'
import type { PieceEnd } from './pre-tokenize.ts'
import { codeAt, widthOf } from './utf8.ts'

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

/** Replaces blanks by marks according to the rule. `atStart`: the text is the start of the prompt. */
export function markBlanks(rule: WordRule, text: string, atStart: boolean): string {
  if (rule.kind === 'whole') return text
  if (rule.kind === 'words') {
    const words = text.split(whiteSpace)
    return words.map((word) => (word === '' || word.startsWith(MARK) ? word : MARK + word)).join('')
  }
  const marked = text.replaceAll(' ', MARK)
  const prefixed = rule.prefix === 'always' || (rule.prefix === 'first' && atStart)
  return prefixed && marked !== '' && !marked.startsWith(MARK) ? MARK + marked : marked
}

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
