import { byCost } from '../by-cost.ts'
import { definePolicy } from '../policy.ts'

/** Everyone in turn, by weight: the least virtual time is next (start-time fair queueing), so who comes back does not catch up. */
export const roundRobin = definePolicy({
  name: 'round_robin',
  needs: ['turn'],
  rank: (_request, candidates) => byCost(candidates, ({ turn }) => ({ cost: turn, terms: { turn } })),
})
