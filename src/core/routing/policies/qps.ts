import { CostTable } from '../cost-table.ts'
import { definePlainPolicy } from '../plain-policy.ts'

const qpsCosts = new CostTable(['arrivals', 'weight'])

/** Ranks by arrivals in the last 60 s, this one included, divided by the weight. */
export const qps = definePlainPolicy({
  name: 'qps',
  doc: 'Fewest arrivals in a sliding 60 s window.',
  source: 'production-stack',
  needs: ['arrivals'],
  rank: (_request, candidates) => qpsCosts.fill(candidates, ({ arrivals, weight }) => (arrivals + 1) / weight).byCost(),
})
