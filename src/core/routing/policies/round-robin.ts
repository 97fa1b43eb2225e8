import { CostTable } from '../cost-table.ts'
import { definePlainPolicy } from '../plain-policy.ts'

const roundRobinCosts = new CostTable(['turn'])

/**
 * Takes all engines in turn, by weight: the lowest virtual time is next (start-time fair queueing), so an engine that
 * returns does not catch up.
 */
export const roundRobin = definePlainPolicy({
  name: 'round_robin',
  doc: 'Every engine in turn, by weight.',
  source: 'as everywhere',
  needs: ['turn'],
  rank: (_request, candidates) => roundRobinCosts.fill(candidates, ({ turn }) => turn).byCost(),
})
