import { expect, it } from 'vitest'
import { durationUnit, inUnit, number, numbersApart } from '../../src/dashboard/format.ts'

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

it('numbers are short, without an exponent', () => {
  expect([0.1312, 12.34, 1234.5, 0, 1.7e-10, -0.00017].map(number)).toEqual([
    '0.13',
    '12.3',
    '1235',
    '0',
    '0',
    '-0.00017',
  ])
})

it('numbers that are compared have as many digits as tell them apart', () => {
  expect(numbersApart(0.1, 0.2)).toEqual(['0.1', '0.2'])
  expect(numbersApart(0.13121, 0.13139)).toEqual(['0.1312', '0.1314'])
  expect(numbersApart(0.5, 0.5)).toEqual(['0.5', '0.5'])
  expect(numbersApart(null, 0.5)).toEqual(['–', '0.5'])
})
