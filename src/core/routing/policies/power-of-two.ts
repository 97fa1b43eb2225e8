import { definePlainPolicy } from '../plain-policy.ts'
import { sortPlaces } from '../sort-places.ts'
import { leastLoaded } from './least-loaded.ts'

/** The less loaded of two engines drawn at random; the others follow by load, for failover. */
export const powerOfTwo = definePlainPolicy({
  name: 'power_of_two',
  doc: 'The less loaded of two engines drawn at random.',
  source: 'vllm-router; Mitzenmacher 2001',
  needs: ['requests', 'foreignRequests'],
  rank(request, candidates, random) {
    const costTable = leastLoaded.rank(request, candidates, random)
    const { costs, order, ranked } = costTable
    if (ranked < 2) return costTable
    const first = Math.floor(random() * ranked)
    const second = (first + 1 + Math.floor(random() * (ranked - 1))) % ranked
    order[0] = first
    order[1] = second
    for (let place = 0, at = 2; place < ranked; place++) if (place !== first && place !== second) order[at++] = place
    sortPlaces(order, costs, 0, 2)
    sortPlaces(order, costs, 2, ranked)
    return costTable
  },
})
