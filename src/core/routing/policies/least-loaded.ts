import { definePolicy } from '../policy.ts'
import { Sheet } from '../sheet.ts'

const sheet = new Sheet(['requests', 'weight'])

/** Fewest live requests for its weight, this one included. */
export const leastLoaded = definePolicy({
  name: 'least_loaded',
  needs: ['requests'],
  rank(_request, candidates) {
    const { costs, terms } = sheet.open(candidates.length)
    for (let place = 0; place < candidates.length; place++) {
      const { requests, weight } = candidates[place]!
      terms.requests[place] = requests
      terms.weight[place] = weight
      costs[place] = (requests + 1) / weight
    }
    return sheet.byCost()
  },
})
