import { CostTable } from '../cost-table.ts'
import { definePolicy } from '../policy.ts'

const qpsCosts = new CostTable(['arrivals', 'weight'])

/** Ranks by arrivals in the last 60 s, this one included, divided by the weight. */
export const qps = definePolicy({
  name: 'qps',
  needs: ['arrivals'],
  rank: (_request, candidates) => qpsCosts.fill(candidates, ({ arrivals, weight }) => (arrivals + 1) / weight).byCost(),
})
