import { expect, it } from 'vitest'
import { rankingBy } from '../ranked-policy.ts'

const { order, costs } = rankingBy('least_loaded')

it('least_loaded keeps the order of equally loaded engines', () => {
  expect(order(1, { e0: { requests: 1 }, e1: {}, e2: { requests: 1 }, e3: {} })).toEqual(['e1', 'e3', 'e0', 'e2'])
})

it('least_loaded divides requests of this gateway and of other sources by weight', () => {
  const fleet = { shared: { requests: 1, foreignRequests: 3 }, large: { requests: 3, weight: 4 }, own: { requests: 2 } }
  expect(costs(1, fleet)).toEqual({ large: 1, own: 3, shared: 5 })
})
