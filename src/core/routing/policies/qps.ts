import { definePolicy } from '../policy.ts'
import { Sheet } from '../sheet.ts'

const sheet = new Sheet(['arrivals', 'weight'])

/** Fewest arrivals in the last 60 s for its weight, this one included. */
export const qps = definePolicy({
  name: 'qps',
  needs: ['arrivals'],
  rank: (_request, candidates) => sheet.price(candidates, ({ arrivals, weight }) => (arrivals + 1) / weight).byCost(),
})
