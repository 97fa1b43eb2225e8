/** Sanitises untrusted text for a terminal: removes control sequences and computes the display width. */

/** Control characters, escapes, bidirectional marks, combining marks and line separators. */
const CONTROL_CHARACTERS = /[\p{C}\p{M}\p{Zl}\p{Zp}]/gu

/** Characters that take two cells (East Asian Width W and F, and emoji). */
const WIDE_RANGES = [
  String.raw`\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60`,
  String.raw`\uffe0-\uffe6\u{17000}-\u{18aff}\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}`,
].join('')

const WIDE = new RegExp(`[${WIDE_RANGES}]|\\p{Emoji_Presentation}`, 'u')

/** Normalises text to visible characters of one or two cells. */
export const sanitize = (text: string): string => text.normalize('NFC').replace(CONTROL_CHARACTERS, '·')

const cellsOfOne = (character: string): number => (WIDE.test(character) ? 2 : 1)

/** Computes the terminal columns of sanitised text. */
export function cellsOf(text: string): number {
  let cells = 0
  for (const character of text) cells += cellsOfOne(character)
  return cells
}

/** Truncates sanitised text to a number of cells, with `…` if something is cut. */
export function truncateTo(text: string, cells: number): string {
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
