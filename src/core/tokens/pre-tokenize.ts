/**
 * Pre-tokenizers of common model families as scanners over UTF-8. Each returns the end of the piece that starts at
 * `at`, exactly as its regular expression would match.
 */
import { BEGIN, charAt, END, LETTER, NEWLINE, NUMBER, runOf, runWithout, SPACE, type ClassedText } from './unicode.ts'

/** End of the piece that starts at `at < end`. The bytes are valid UTF-8, and `end` is the end of the text. */
export type PieceEnd = (text: ClassedText, at: number, end: number) => number

export type PreTokenizer = 'gpt2' | 'qwen2' | 'llama3' | 'o200k'

const CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
const SPACES = ['\\s*[\\r\\n]+', '\\s+(?!\\S)', '\\s+']
const OTHERS = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*'
const UPPER = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]'
const LOWER = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'
const BEFORE_WORD = '[^\\r\\n\\p{L}\\p{N}]?'

/** The regular expressions in tokenizer.json, as lists of their alternatives. */
const EXPRESSIONS: Readonly<Record<PreTokenizer, readonly string[]>> = {
  gpt2: ["'s|'t|'re|'ve|'m|'ll|'d", ' ?\\p{L}+', ' ?\\p{N}+', ' ?[^\\s\\p{L}\\p{N}]+', '\\s+(?!\\S)', '\\s+'],
  qwen2: [CONTRACTION, `${BEFORE_WORD}\\p{L}+`, '\\p{N}', OTHERS, ...SPACES],
  llama3: [CONTRACTION, `${BEFORE_WORD}\\p{L}+`, '\\p{N}{1,3}', OTHERS, ...SPACES],
  o200k: [
    `${BEFORE_WORD}${UPPER}*${LOWER}+${CONTRACTION}?`,
    `${BEFORE_WORD}${UPPER}+${LOWER}*${CONTRACTION}?`,
    '\\p{N}{1,3}',
    ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*',
    ...SPACES,
  ],
}

/** Maps the regular expression in tokenizer.json to its scanner. */
export const patterns: Readonly<Record<string, PreTokenizer>> = Object.fromEntries(
  Object.entries(EXPRESSIONS).map(([name, alternatives]) => [alternatives.join('|'), name as PreTokenizer]),
)

export const pieceEnds: Readonly<Record<PreTokenizer, PieceEnd>> = {
  gpt2: gpt2Piece,
  qwen2: (text, at, end) => cl100kPiece(text, at, end, 1),
  llama3: (text, at, end) => cl100kPiece(text, at, end, 3),
  o200k: o200kPiece,
}

const WORD = LETTER | NUMBER
const NOT_MARKS = LETTER | NUMBER | SPACE
const BLANK = 0x20
const APOSTROPHE = 0x27
const SLASH = 0x2f

/** End of the contraction whose apostrophe is at `at`. 0: none. */
function contraction(text: ClassedText, at: number, end: number, anyCase: boolean): number {
  if (at + 1 >= end) return 0
  const fold = anyCase ? 0x20 : 0
  const first = (text.bytes[at + 1] as number) | fold
  // s, t, m, d
  if (first === 0x73 || first === 0x74 || first === 0x6d || first === 0x64) return at + 2
  // Unicode case folding maps the long s to s.
  if (at + 2 >= end) return 0
  if (anyCase && text.bytes[at + 1] === 0xc5 && text.bytes[at + 2] === 0xbf) return at + 3
  const second = (text.bytes[at + 2] as number) | fold
  // re, ve, ll
  if (second === 0x65 && (first === 0x72 || first === 0x76)) return at + 3
  return second === 0x6c && first === 0x6c ? at + 3 : 0
}

/** `\s+(?!\S)|\s+`, and before it `\s*[\r\n]+` where `newlines`. `at` is white space. */
function spaces(text: ClassedText, at: number, end: number, newlines: boolean): number {
  let i = at
  let last = at
  let afterNewline = 0
  while (i < end) {
    const char = charAt(text, i)
    if ((char & SPACE) === 0) break
    last = i
    i += char >> 8
    if ((char & NEWLINE) !== 0) afterNewline = i
  }
  if (newlines && afterNewline > 0) return afterNewline
  return i === end || last === at ? i : last
}

function digits(text: ClassedText, at: number, end: number, max: number): number {
  let i = at
  for (let count = 0; count < max && i < end; count++) {
    const char = charAt(text, i)
    if ((char & NUMBER) === 0) break
    i += char >> 8
  }
  return i
}

/** Start of ` ?[^\s\p{L}\p{N}]+` after its optional blank. -1: no match. */
function marksStart(text: ClassedText, at: number, end: number): number {
  const start = text.bytes[at] === BLANK ? at + 1 : at
  return start < end && (charAt(text, start) & NOT_MARKS) === 0 ? start : -1
}

function gpt2Piece(text: ClassedText, at: number, end: number): number {
  const lead = text.bytes[at] as number
  if (lead === APOSTROPHE) {
    const contracted = contraction(text, at, end, false)
    if (contracted > 0) return contracted
  }
  const start = lead === BLANK && at + 1 < end ? at + 1 : at
  const char = charAt(text, start)
  if ((char & LETTER) !== 0) return runOf(LETTER, text, start, end)
  if ((char & NUMBER) !== 0) return runOf(NUMBER, text, start, end)
  if ((char & SPACE) === 0) return runWithout(NOT_MARKS, text, start, end)
  return spaces(text, at, end, false)
}

function cl100kPiece(text: ClassedText, at: number, end: number, maxDigits: number): number {
  const lead = text.bytes[at] as number
  if (lead === APOSTROPHE) {
    const contracted = contraction(text, at, end, true)
    if (contracted > 0) return contracted
  }
  const char = charAt(text, at)
  if ((char & LETTER) !== 0) return runOf(LETTER, text, at, end)
  if ((char & NUMBER) !== 0) return digits(text, at, end, maxDigits)
  if ((char & NEWLINE) === 0) {
    const next = at + (char >> 8)
    if (next < end && (charAt(text, next) & LETTER) !== 0) return runOf(LETTER, text, next, end)
  }
  const marks = marksStart(text, at, end)
  if (marks >= 0) return runOf(NEWLINE, text, runWithout(NOT_MARKS, text, marks, end), end)
  return spaces(text, at, end, true)
}

function o200kPiece(text: ClassedText, at: number, end: number): number {
  const char = charAt(text, at)
  const prefixed = (char & (WORD | NEWLINE)) === 0 ? at + (char >> 8) : -1
  const word = endedWord(text, prefixed, at, end)
  if (word > 0) {
    const contracted = text.bytes[word] === APOSTROPHE && word < end ? contraction(text, word, end, true) : 0
    return contracted > 0 ? contracted : word
  }
  if ((char & NUMBER) !== 0) return digits(text, at, end, 3)
  const marks = marksStart(text, at, end)
  if (marks < 0) return spaces(text, at, end, true)
  let i = runWithout(NOT_MARKS, text, marks, end)
  while (i < end && (text.bytes[i] === SLASH || (charAt(text, i) & NEWLINE) !== 0)) i++
  return i
}

/** The two word alternatives of o200k, each first with its optional prefix character, then without. 0: no match. */
function endedWord(text: ClassedText, prefixed: number, at: number, end: number): number {
  for (const match of [beginThenEnd, beginOnly]) {
    const longest = prefixed > 0 ? match(text, prefixed, end) : 0
    const found = longest > 0 ? longest : match(text, at, end)
    if (found > 0) return found
  }
  return 0
}

/** `[begin]*[end]+`. Backtracks over characters of both classes if nothing else ends the word. */
function beginThenEnd(text: ClassedText, at: number, end: number): number {
  let i = at
  let afterLastBoth = 0
  while (i < end) {
    const char = charAt(text, i)
    if ((char & BEGIN) === 0) break
    i += char >> 8
    if ((char & END) !== 0) afterLastBoth = i
  }
  const ended = runOf(END, text, i, end)
  return ended > i ? ended : afterLastBoth
}

/** `[begin]+[end]*`, tried only if the other did not match, so no character here is of both classes. */
function beginOnly(text: ClassedText, at: number, end: number): number {
  const i = runOf(BEGIN, text, at, end)
  return i > at ? runOf(END, text, i, end) : 0
}
