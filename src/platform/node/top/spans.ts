/** Lines of toned text, and what a terminal is sent for them. */
import { cellsOf, cutTo, harmless } from './plain-text.ts'

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
