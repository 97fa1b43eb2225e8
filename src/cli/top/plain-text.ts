/** Text from elsewhere, made fit for a terminal: nothing in it acts, and its width is known. */

/** Controls and escapes, what turns the writing around, what is drawn over its neighbour, what no line holds. */
const ACTING = /[\p{C}\p{M}\p{Zl}\p{Zp}]/gu
/** Two cells wide on a terminal (East Asian Width W and F, and emoji). */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{17000}-\u{18aff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u

/** The same for the eye, as far as it can be, in characters of one or two cells each. */
export const harmless = (text: string): string => text.normalize('NFC').replace(ACTING, '·')

const cellsOfOne = (character: string): number => (WIDE.test(character) ? 2 : 1)

/** Columns of a terminal that harmless text fills. */
export function cellsOf(text: string): number {
  let cells = 0
  for (const character of text) cells += cellsOfOne(character)
  return cells
}

/** Harmless text cut to so many cells, `…` in the last one where something is missing. */
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

/* Lines of toned text, and what a terminal is sent for them. */

/** Tones help the eye; what they say stands in the words too. */
export type Tone = 'good' | 'warn' | 'bad' | 'dim' | 'strong' | 'head'

export interface Span {
  readonly text: string
  readonly tone?: Tone | null
}

export type Line = readonly Span[]

const CODES: Readonly<Record<Tone, string>> = { good: '32', warn: '33', bad: '1;31', dim: '2', strong: '1', head: '7' }

/**
 * The line in at most so many cells; with colours or without. The one way to the terminal: what names and errors from
 * elsewhere hold is made harmless here, and nothing else that is drawn holds an escape.
 */
export function painted(line: Line, { cells, colours }: { readonly cells: number; readonly colours: boolean }): string {
  let left = cells
  let out = ''
  for (const { text, tone } of line) {
    const fit = cutTo(harmless(text), left)
    left -= cellsOf(fit)
    out += colours && tone && fit !== '' ? `\u001b[${CODES[tone]}m${fit}\u001b[0m` : fit
  }
  // Blanks at the end of a head are drawn; in plain text they are nothing.
  return colours ? out : out.trimEnd()
}
