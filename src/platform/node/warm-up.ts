import { IdBuffer } from '../../core/tokens/id-buffer.ts'
import type { OpenVocabulary } from '../../vocabulary.ts'

/**
 * Characters of the longest text for the first vocabulary; each further text has half as many. Enough for the JIT to
 * optimise the code of a prompt, and for a tokenizer's buffers to grow to the size of a long prompt.
 */
const LONGEST_CHARS = 128_000

/** Other vocabularies use the same code and need fewer characters. */
const LATER_CHARS = 16_000

/** Several texts instead of one, because the start of a text would otherwise deoptimise the compiled code. */
const SHORTEST_CHARS = 500

/**
 * Runs text through every tokenizer before the first prompt. Cold code is several times slower, and a long first
 * prompt would delay all others. Takes 0.15 to 0.2 s at the start.
 */
export function warmUp(vocabularies: Iterable<Pick<OpenVocabulary, 'tokenizer'>>): void {
  const random = randomFrom(1)
  const ids = new IdBuffer()
  let longest = LONGEST_CHARS
  for (const { tokenizer } of vocabularies) {
    for (let chars = longest; chars >= SHORTEST_CHARS; chars /= 2) {
      ids.clear()
      tokenizer.encode(sample(chars, random), true, ids)
    }
    longest = LATER_CHARS
  }
}

/** Deterministic, so that a slow start is reproducible. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32
}

/** First letter and number of letters, for characters of one to four bytes and combining marks. */
const SCRIPTS = [
  [0x61, 26],
  [0x41, 26],
  [0xe0, 30],
  [0x3b1, 25],
  [0x430, 32],
  [0x5d0, 27],
  [0x627, 36],
  [0x905, 50],
  [0xe01, 46],
  [0x3041, 80],
  [0x4e00, 3000],
  [0xac00, 2000],
  [0x1f300, 500],
  [0x300, 60],
] as const

/** Separators of words in prose, code, tables and lists, and suffixes that pre-tokenizers treat specially. */
const SEPARATORS = [
  ' ',
  ' ',
  ' ',
  ' ',
  ' ',
  ', ',
  '. ',
  ': ',
  '.\n',
  '\n\n',
  '\r\n',
  '\t',
  '    ',
  '\n        ',
  ' = ',
  '("',
  '")',
  '();\n',
  ' => {\n',
  '_',
  '-',
  '/',
  '. ',
  '\u00a0',
  '’',
  ' \n',
  '\n  - ',
  ' | ',
  "'s ",
  "'re ",
  "'ll ",
  "'T ",
  "' ",
] as const

const SYLLABLES = (
  'the of and to in is for it with as on be at by or an re un con de pro ex tion ing er ed ly ment able ness ' +
  'al ic ous est st ch sh th qu ar el om ur y a e i o u'
).split(' ')

/** Longer than any word that is cached or merged by scanning. */
const LONG_CHARS = 150

/** Generates words that are mostly new, so that merges happen. */
function sample(chars: number, random: () => number): string {
  const pick = <One>(from: readonly One[]): One => from[Math.floor(random() * from.length)]!
  const parts: string[] = []
  for (let length = 0; length < chars;) {
    const word = wordOf(random, pick) + pick(SEPARATORS)
    parts.push(word)
    length += word.length
  }
  return parts.join('')
}

function wordOf(random: () => number, pick: <One>(from: readonly One[]) => One): string {
  const kind = random()
  if (kind < 0.8) return Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(SYLLABLES)).join('')
  if (kind < 0.88) return String(Math.floor(random() ** 4 * 1e9))
  if (kind < 0.998) {
    const [first, size] = pick(SCRIPTS)
    return String.fromCodePoint(
      ...Array.from({ length: 1 + Math.floor(random() * 8) }, () => first + Math.floor(random() * size)),
    )
  }
  return random() < 0.5
    ? pick(['-', '=', ' ', 'a', '\n']).repeat(LONG_CHARS)
    : String.fromCharCode(...Array.from({ length: LONG_CHARS }, () => 0x61 + Math.floor(random() * 26)))
}
