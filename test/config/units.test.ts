import { describe, expect, it } from 'vitest'
import { durationText, sizeText, versionText } from '../../src/config/units.ts'

describe('units of a configuration', () => {
  it.each([
    [0, '0 bytes'],
    [1000, '1000 bytes'],
    [1024, '1 KiB'],
    [1536, '1.5 KiB'],
    [33_554_432, '32 MiB'],
    [2 ** 30 + 1, `${2 ** 30 + 1} bytes`],
  ])('the formatter of units formats a size of %d bytes as %s', (bytes, text) => expect(sizeText(bytes)).toBe(text))

  it.each([
    [0, '0 ms'],
    [250, '250 ms'],
    [4000, '4 s'],
    [1500, '1.5 s'],
    [61_000, '61 s'],
    [600_000, '10 min'],
    [86_400_000, '1 d'],
    [1234, '1234 ms'],
  ])('the formatter of units formats a duration of %d ms as %s', (ms, text) => expect(durationText(ms)).toBe(text))

  it('the formatter of units shows a version that is a modification time as a time, and another as a number', () => {
    expect(versionText(Date.UTC(2026, 10, 23, 12, 48, 17))).toBe('1795438097000 (2026-11-23 12:48:17 UTC)')
    expect(versionText(7)).toBe('7')
    expect(versionText(Number.MAX_SAFE_INTEGER)).toBe('9007199254740991')
  })
})
