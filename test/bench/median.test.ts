import { expect, it } from 'vitest'
import { median, medianInterval } from '../../packages/bench/median.ts'

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => count - at)

it('the interval of a median contains it, and leaves out the tails of many values', () => {
  expect(medianInterval(upTo(4))).toEqual([1, 4])
  expect(medianInterval(upTo(40))).toEqual([14, 27])
  expect(median(upTo(40))).toBe(21)
})
