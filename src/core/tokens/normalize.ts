/** Normalizers of tokenizer.json, as steps that are stored in a compiled vocabulary. */
import { Charsmap } from './charsmap.ts'

export type NormalStep =
  | { readonly kind: 'nfc' | 'nfkc' }
  | { readonly kind: 'prepend'; readonly text: string }
  | { readonly kind: 'replace'; readonly from: string; readonly to: string }
  /** Two or more blanks become `to`. */
  | { readonly kind: 'blanks'; readonly to: string }
  | { readonly kind: 'strip'; readonly left: boolean; readonly right: boolean }
  /** SentencePiece's table of replacements, in base64. */
  | { readonly kind: 'charsmap'; readonly map: string }

export type Normalizer = (text: string) => string

/** Throws an Error for a damaged table of replacements. */
export function normalizerOf(steps: readonly NormalStep[]): Normalizer {
  const each = steps.map(stepOf)
  return (text) => each.reduce((changed, step) => step(changed), text)
}

function stepOf(step: NormalStep): Normalizer {
  switch (step.kind) {
    case 'nfc':
      return (text) => composed(text, 'NFC')
    case 'nfkc':
      return (text) => composed(text, 'NFKC')
    case 'prepend':
      return (text) => (text === '' ? '' : step.text + text)
    case 'replace':
      return (text) => text.replaceAll(step.from, () => step.to)
    case 'blanks':
      return (text) => text.replace(/ {2,}/g, () => step.to)
    case 'strip':
      return (text) => stripped(text, step.left, step.right)
    case 'charsmap': {
      const map = new Charsmap(step.map)
      return (text) => map.normalize(text)
    }
  }
}

const space = /\p{White_Space}/u

/** A search for white space at the end takes quadratic time as a regular expression. */
function stripped(text: string, left: boolean, right: boolean): string {
  let from = 0
  let to = text.length
  if (left) while (from < to && space.test(text.charAt(from))) from++
  if (right) while (to > from && space.test(text.charAt(to - 1))) to--
  return text.slice(from, to)
}

const ascii = /^[\0-\x7f]*$/

const marks = /\p{M}{32}/uy

/**
 * Normalizes to NFC or NFKC. Throws at 127 combining marks in a row, and may from 32 on, because ordering them takes
 * quadratic time, up to hours.
 */
function composed(text: string, form: 'NFC' | 'NFKC'): string {
  if (ascii.test(text)) return text
  // A longer run contains one of these positions with enough marks after it; two units form at most one mark.
  for (let at = 0; at < text.length; at += 64) {
    marks.lastIndex = at
    if (marks.test(text)) throw new Error('more combining marks in a row than any language has')
  }
  return text.normalize(form)
}
