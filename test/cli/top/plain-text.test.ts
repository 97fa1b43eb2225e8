import { stripVTControlCharacters } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cellsOf, truncateTo, sanitize } from '../../../src/cli/top/plain-text.ts'
import { encodeLine } from '../../../src/cli/top/spans.ts'
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('\u001b[2J', '\u009b31m', '\u001b]0;owned\u0007', 'a\u202eb', '\ud800', 'a\rb\nc'),
)

describe('printable text', () => {
  it.each([
    ['a\u001b[2Jb', 'a·[2Jb'],
    ['a\u009b2Jb', 'a·2Jb'],
    ['\u001b]0;title\u0007', '·]0;title·'],
    ['two\r\nlines\u2028', 'two··lines·'],
    ['admin\u202etxt.exe', 'admin·txt.exe'],
    ['z\u0335\u0336\u0337', 'z···'],
    ['e\u0301', 'é'],
    ['\ud83d', '·'],
    ['Qwen/Qwen3-8B', 'Qwen/Qwen3-8B'],
    ['通义千问', '通义千问'],
  ])('%j is shown as %j', (given, shown) => expect(sanitize(given)).toBe(shown))

  it('printable text fits the given width and keeps as much as fits', () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 0, max: 20 }), (given, cells) => {
        const plain = sanitize(given)
        const truncated = truncateTo(plain, cells)
        expect(cellsOf(truncated)).toBeLessThanOrEqual(cells)
        if (cellsOf(plain) <= cells) expect(truncated).toBe(plain)
        else if (cells > 0) expect(cellsOf(truncated)).toBeGreaterThanOrEqual(cells - 1)
      }),
    )
  })

  it('printable text counts two cells for a wide character', () => {
    expect([cellsOf('ab'), cellsOf('通义'), cellsOf('한글'), cellsOf('🚀x'), cellsOf('é·…')]).toEqual([2, 4, 4, 3, 3])
    expect(truncateTo('通义千问', 5)).toBe('通义…')
  })

  it('a line has no control characters except its own colours, for any names', () => {
    const tone = fc.constantFrom('good' as const, 'bad' as const, 'head' as const, null)
    fc.assert(
      fc.property(
        fc.array(fc.record({ text, tone }), { maxLength: 4 }),
        fc.boolean(),
        fc.integer({ min: 0, max: 30 }),
        (line, colours, cells) => {
          const out = encodeLine(line, { cells, colours })
          // oxlint-disable-next-line no-control-regex
          const bare = out.replaceAll(/\u001b\[(?:0|2|7|1|31|32|33|1;31)m/g, '')
          expect(bare).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
          expect(cellsOf(bare)).toBeLessThanOrEqual(cells)
          if (!colours) expect(stripVTControlCharacters(out)).toBe(out)
        },
      ),
    )
  })
})
