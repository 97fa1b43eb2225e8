/** Boundaries of user-perceived characters (Unicode, UAX 29). */

export type GraphemeKind = 'cr' | 'lf' | 'control' | 'prepend' | 'extend' | 'joiner' | 'picture' | 'other'

const extend = /[\p{Grapheme_Extend}\p{Emoji_Modifier}\p{Mc}\u0e33\u0eb3]/u

/** Marks with an own width that the standard excludes. */
const apart = new RegExp(
  String.raw`[\u102b\u102c\u1038\u1062-\u1064\u1067-\u106d\u1083\u1087-\u108c\u108f\u109a-\u109c\u1a61\u1a63` +
    String.raw`\u1a64\uaa7b\uaa7d\u{11720}\u{11721}]`,
  'u',
)

const prepend = new RegExp(
  String.raw`[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\u{110bd}\u{110cd}\u{111c2}\u{111c3}\u{113d1}` +
    String.raw`\u{1193f}\u{11941}\u{11a3a}\u{11a84}-\u{11a89}\u{11d46}\u{11f02}]`,
  'u',
)

const picture = /\p{Extended_Pictographic}/u

const control = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u2065\ufff0-\ufff8\u{e0000}-\u{e0fff}]/u

export function graphemeKind(char: string): GraphemeKind {
  if (char === '\r') return 'cr'
  if (char === '\n') return 'lf'
  if (char === '\u200d') return 'joiner'
  if (picture.test(char)) return 'picture'
  if (prepend.test(char)) return 'prepend'
  if (extend.test(char) && !apart.test(char)) return 'extend'
  return control.test(char) ? 'control' : 'other'
}

/**
 * Whether no boundary lies between two neighbours. Rules that only join characters to more than five bytes (Hangul,
 * flags, Indic conjuncts) are left out: those are replaced one by one anyway.
 */
export function isOneGrapheme(first: GraphemeKind, second: GraphemeKind): boolean {
  if (first === 'cr') return second === 'lf'
  if (first === 'lf' || first === 'control') return false
  if (second === 'extend' || second === 'joiner') return true
  if (first === 'joiner') return second === 'picture'
  return first === 'prepend' && (second === 'other' || second === 'picture' || second === 'prepend')
}
