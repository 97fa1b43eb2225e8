import { expect, it } from 'vitest'
import { rankingBy } from '../ranked-policy.ts'

const { order, costs } = rankingBy('qps')

it('qps divides recent arrivals, the new one included, by weight', () => {
  const fleet = { small: { arrivals: 1 }, large: { arrivals: 4, weight: 4 } }
  expect(order(1, fleet)).toEqual(['large', 'small'])
  expect(costs(1, fleet)).toEqual({ large: 5 / 4, small: 2 })
})
