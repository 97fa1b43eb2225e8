import { definePolicy } from '../policy.ts'
import { Sheet } from '../sheet.ts'

const sheet = new Sheet(['requests', 'weight'])

/** Fewest live requests for its weight, this one included. */
export const leastLoaded = definePolicy({
  name: 'least_loaded',
  needs: ['requests'],
  rank: (_request, candidates) => sheet.price(candidates, ({ requests, weight }) => (requests + 1) / weight).byCost(),
})
