import { expect, it } from 'vitest'
import { durationUnit, inUnit } from '../../src/dashboard/format.ts'

it('a column of durations has one unit: seconds as soon as one of them has 10 s or more', () => {
  expect(durationUnit([])).toBe('ms')
  expect(durationUnit([null, undefined, 9_999])).toBe('ms')
  expect(durationUnit([12, 10_000])).toBe('s')
  expect(inUnit(12, 's')).toBe('0.012 s')
  expect(inUnit(12_345, 's')).toBe('12.3 s')
  expect(inUnit(12_345, 'ms')).toBe('12345 ms')
  expect(inUnit(0, 'ms')).toBe('0 ms')
  expect(inUnit(null, 's')).toBe('–')
})
