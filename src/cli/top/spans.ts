/** Lines of styled text, and their encoding for a terminal. */
import { cellsOf, sanitize, truncateTo } from './plain-text.ts'

/** Styles. The text carries the same information without them. */
export type Tone = 'good' | 'warn' | 'bad' | 'dim' | 'strong' | 'head'

export interface Span {
  readonly text: string
  readonly tone?: Tone | null
}

export type TextLine = readonly Span[]

const CODES: Readonly<Record<Tone, string>> = { good: '32', warn: '33', bad: '1;31', dim: '2', strong: '1', head: '7' }

/**
 * Encodes a line in at most `cells` columns, with or without colours. All terminal output passes through here, so
 * untrusted names and errors are sanitised in this one place.
 */
export function encodeLine(
  line: TextLine,
  { cells, colours }: { readonly cells: number; readonly colours: boolean },
): string {
  let left = cells
  let out = ''
  for (const { text, tone } of line) {
    const fit = truncateTo(sanitize(text), left)
    left -= cellsOf(fit)
    out += colours && tone && fit !== '' ? `\u001b[${CODES[tone]}m${fit}\u001b[0m` : fit
  }
  // Trailing blanks of a coloured head are visible; in plain text they are not needed.
  return colours ? out : out.trimEnd()
}
