import { byCost } from '../by-cost.ts'
import { definePolicy } from '../policy.ts'

/** Fewest arrivals in the last 60 s for its weight, this one included. */
export const qps = definePolicy({
  name: 'qps',
  needs: ['arrivals'],
  rank: (_request, candidates) =>
    byCost(candidates, ({ arrivals, weight }) => ({ cost: (arrivals + 1) / weight, terms: { arrivals, weight } })),
})
