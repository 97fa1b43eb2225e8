import { CostTable } from '../cost-table.ts'
import { definePlainPolicy } from '../plain-policy.ts'

const leastLoadedCosts = new CostTable(['requests', 'weight'])

/**
 * Ranks by running and waiting requests, this one included, divided by the weight: those booked here and those of
 * other sources by the engine's latest report. Without a recent report, those booked here.
 */
export const leastLoaded = definePlainPolicy({
  name: 'least_loaded',
  doc: 'Fewest running and waiting requests, those of other sources included where engines report them.',
  source: 'as everywhere',
  needs: ['requests', 'foreignRequests'],
  rank: (_request, candidates) =>
    leastLoadedCosts
      .fill(candidates, ({ requests, foreignRequests, weight }) => (requests + foreignRequests + 1) / weight)
      .byCost(),
})
