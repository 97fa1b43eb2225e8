import { byCost } from '../by-cost.ts'
import { definePolicy } from '../policy.ts'

/** Fewest live requests for its weight, this one included. */
export const leastLoaded = definePolicy({
  name: 'least_loaded',
  needs: ['requests'],
  rank: (_request, candidates) =>
    byCost(candidates, ({ requests, weight }) => ({ cost: (requests + 1) / weight, terms: { requests, weight } })),
})
