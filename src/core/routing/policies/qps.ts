import { definePolicy } from '../policy.ts'
import { Sheet } from '../sheet.ts'

const sheet = new Sheet(['arrivals', 'weight'])

/** Fewest arrivals in the last 60 s for its weight, this one included. */
export const qps = definePolicy({
  name: 'qps',
  needs: ['arrivals'],
  rank(_request, candidates) {
    const { costs, terms } = sheet.open(candidates.length)
    for (let place = 0; place < candidates.length; place++) {
      const { arrivals, weight } = candidates[place]!
      terms.arrivals[place] = arrivals
      terms.weight[place] = weight
      costs[place] = (arrivals + 1) / weight
    }
    return sheet.byCost()
  },
})
