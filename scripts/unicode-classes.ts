/**
 * Writes src/core/tokens/unicode-table.ts from this runtime's Unicode tables: `node scripts/unicode-classes.ts`. The
 * classes are shipped, because token ids must not depend on the runtime's Unicode version.
 */
import { writeFileSync } from 'node:fs'

/** Bits as named in src/core/tokens/unicode.ts. */
const classes = [
  /\p{L}/u,
  /\p{N}/u,
  /\p{White_Space}/u,
  /[\r\n]/,
  /[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]/u,
  /[\p{Ll}\p{Lm}\p{Lo}\p{M}]/u,
]
const LINE = 120

const bitsOf = (code: number): number =>
  classes.reduce((bits, test, bit) => (test.test(String.fromCodePoint(code)) ? bits | (1 << bit) : bits), 0)

/** Lengths of runs of one class, in order of code point. */
function runs(): { bits: number; length: number }[] {
  const found: { bits: number; length: number }[] = []
  for (let code = 0; code < 0x110000; code++) {
    const bits = bitsOf(code)
    const last = found.at(-1)
    if (last?.bits === bits) last.length++
    else found.push({ bits, length: 1 })
  }
  return found
}

const found = runs()
const used = [...new Set(found.map(({ bits }) => bits))].sort((a, b) => a - b)
// A capital letter for the class, then the length in base 36, omitted if it is 1.
const text = found
  .map(({ bits, length }) => String.fromCharCode(0x41 + used.indexOf(bits)) + (length === 1 ? '' : length.toString(36)))
  .join('')
const lines = text.match(new RegExp(`.{1,${LINE}}`, 'g')) ?? []

writeFileSync(
  new URL('../src/core/tokens/unicode-table.ts', import.meta.url),
  `/** Written by scripts/unicode-classes.ts (Unicode ${process.versions['unicode'] ?? 'unknown'}). */

import type { CharacterClasses } from './unicode.ts'

/** Classes stored in each compiled vocabulary, so that the gateway does not need this table. */
export const unicodeClasses: CharacterClasses = {
  bits: ${JSON.stringify(used).replaceAll(',', ', ')},
  runs:
${lines.map((line) => `    '${line}'`).join(' +\n')},
}
`,
)
