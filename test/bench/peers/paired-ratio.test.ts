import { expect, it } from 'vitest'
import { pairedRatio } from '../../../packages/bench/peers/paired-ratio.ts'

it('the ratio of pairs is the median over rounds that both subjects were measured in', () => {
  const own = [10, 20, null, 40, 50]
  const other = [10, 10, 10, null, 10]
  expect(pairedRatio(own, other)).toEqual({ ratio: 2, low: 1, high: 5, pairs: 3 })
})

it('the interval of a ratio leaves out the extremes of many pairs', () => {
  const own = Array.from({ length: 25 }, (_, at) => at + 1)
  expect(
    pairedRatio(
      own,
      own.map(() => 1),
    ),
  ).toEqual({ ratio: 13, low: 8, high: 18, pairs: 25 })
})

it('a ratio without a pair is null', () => {
  expect(pairedRatio([1, 2], [null, 0])).toBeNull()
  expect(pairedRatio([1, 2], [])).toBeNull()
})
