import { CostTable } from '../cost-table.ts'
import { definePolicy } from '../policy.ts'

const roundRobinCosts = new CostTable(['turn'])

/**
 * Takes all engines in turn, by weight: the lowest virtual time is next (start-time fair queueing), so an engine that
 * returns does not catch up.
 */
export const roundRobin = definePolicy({
  name: 'round_robin',
  needs: ['turn'],
  rank: (_request, candidates) => roundRobinCosts.fill(candidates, ({ turn }) => turn).byCost(),
})
