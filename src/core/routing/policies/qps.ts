import { CostTable } from '../cost-table.ts'
import { definePolicy } from '../policy.ts'

const qpsCosts = new CostTable(['arrivals', 'weight'])

/** Fewest arrivals in the last 60 s for its weight, this one included. */
export const qps = definePolicy({
  name: 'qps',
  needs: ['arrivals'],
  rank: (_request, candidates) => qpsCosts.fill(candidates, ({ arrivals, weight }) => (arrivals + 1) / weight).byCost(),
})
