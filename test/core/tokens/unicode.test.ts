import { describe, expect, it } from 'vitest'
import { BEGIN, charAt, END, LETTER, NEWLINE, NUMBER, readClasses, SPACE } from '../../../src/core/tokens/unicode.ts'
import { unicodeClasses } from '../../../src/core/tokens/unicode-table.ts'

const expected: readonly (readonly [number, RegExp])[] = [
  [LETTER, /\p{L}/u],
  [NUMBER, /\p{N}/u],
  [SPACE, /\p{White_Space}/u],
  [NEWLINE, /[\r\n]/],
  [BEGIN, /[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]/u],
  [END, /[\p{Ll}\p{Lm}\p{Lo}\p{M}]/u],
]

const classes = readClasses(unicodeClasses)
const space = (text: string): number => charAt({ bytes: new TextEncoder().encode(text), classes }, 0) & SPACE

describe('the class table', () => {
  it('the class table agrees with the runtime on the classes and widths of all its characters', () => {
    const encoder = new TextEncoder()
    const wrong: string[] = []
    for (let code = 0; code < 0x110000; code++) {
      const text = String.fromCodePoint(code)
      if ((code >= 0xd800 && code < 0xe000) || !assigned.test(text)) continue
      const bytes = encoder.encode(text)
      const char = charAt({ bytes, classes }, 0)
      const bits = expected.reduce((sum, [bit, test]) => (test.test(text) ? sum | bit : sum), 0)
      if ((char & 0xff) !== bits || char >> 8 !== bytes.length) wrong.push(code.toString(16))
    }
    expect(wrong).toEqual([])
  })

  it('the class table defines white space as Rust does: U+0085, but not U+FEFF', () => {
    expect(space('\u0085')).toBe(SPACE)
    expect(space('\ufeff')).toBe(0)
  })
})

/** Characters assigned in this runtime's Unicode version. Runtimes differ in the newest characters only. */
const assigned = /\P{Cn}/u
