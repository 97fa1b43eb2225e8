import { definePolicy } from '../policy.ts'
import { Sheet } from '../sheet.ts'

const sheet = new Sheet(['turn'])

/** Everyone in turn, by weight: the least virtual time is next (start-time fair queueing), so who comes back does not catch up. */
export const roundRobin = definePolicy({
  name: 'round_robin',
  needs: ['turn'],
  rank: (_request, candidates) => sheet.price(candidates, ({ turn }) => turn).byCost(),
})
