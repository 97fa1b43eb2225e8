import { byCost } from '../by-cost.ts'
import { type Candidate, definePolicy } from '../policy.ts'

/** The less loaded of two engines drawn at random; the others follow by load, for failover. */
export const powerOfTwo = definePolicy({
  name: 'power_of_two',
  needs: ['requests'],
  rank: (_request, candidates, random) => {
    if (candidates.length < 2) return byCost(candidates, price)
    const first = Math.floor(random() * candidates.length)
    const second = (first + 1 + Math.floor(random() * (candidates.length - 1))) % candidates.length
    const drawn = [candidates[first]!, candidates[second]!]
    return [...byCost(drawn, price), ...byCost(candidates.filter((candidate) => !drawn.includes(candidate)), price)]
  },
})

function price({ requests, weight }: Candidate<'requests'>) {
  return { cost: (requests + 1) / weight, terms: { requests, weight } }
}
