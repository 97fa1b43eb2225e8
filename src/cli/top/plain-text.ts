/** Sanitises untrusted text for a terminal: removes control sequences and computes the display width. */

/** Control characters, escapes, bidirectional marks, combining marks and line separators. */
const ACTING = /[\p{C}\p{M}\p{Zl}\p{Zp}]/gu
/** Characters that take two cells (East Asian Width W and F, and emoji). */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{17000}-\u{18aff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u

/** Normalises text to visible characters of one or two cells. */
export const harmless = (text: string): string => text.normalize('NFC').replace(ACTING, '·')

const cellsOfOne = (character: string): number => (WIDE.test(character) ? 2 : 1)

/** Computes the terminal columns of sanitised text. */
export function cellsOf(text: string): number {
  let cells = 0
  for (const character of text) cells += cellsOfOne(character)
  return cells
}

/** Truncates sanitised text to a number of cells, with `…` if something is cut. */
export function cutTo(text: string, cells: number): string {
  if (cellsOf(text) <= cells) return text
  let kept = ''
  let left = cells - 1
  for (const character of text) {
    left -= cellsOfOne(character)
    if (left < 0) break
    kept += character
  }
  return cells < 1 ? '' : `${kept}…`
}

/* Lines of styled text, and their encoding for a terminal. */

/** Styles. The text carries the same information without them. */
export type Tone = 'good' | 'warn' | 'bad' | 'dim' | 'strong' | 'head'

export interface Span {
  readonly text: string
  readonly tone?: Tone | null
}

export type Line = readonly Span[]

const CODES: Readonly<Record<Tone, string>> = { good: '32', warn: '33', bad: '1;31', dim: '2', strong: '1', head: '7' }

/**
 * Encodes a line in at most `cells` columns, with or without colours. All terminal output passes through here, so
 * untrusted names and errors are sanitised in this one place.
 */
export function painted(line: Line, { cells, colours }: { readonly cells: number; readonly colours: boolean }): string {
  let left = cells
  let out = ''
  for (const { text, tone } of line) {
    const fit = cutTo(harmless(text), left)
    left -= cellsOf(fit)
    out += colours && tone && fit !== '' ? `\u001b[${CODES[tone]}m${fit}\u001b[0m` : fit
  }
  // Trailing blanks of a coloured head are visible; in plain text they are not needed.
  return colours ? out : out.trimEnd()
}
