import { definePolicy } from '../policy.ts'
import { Sheet } from '../sheet.ts'
import { sortPlaces } from '../sort-places.ts'

const sheet = new Sheet(['requests', 'weight'])

/** The less loaded of two engines drawn at random; the others follow by load, for failover. */
export const powerOfTwo = definePolicy({
  name: 'power_of_two',
  needs: ['requests'],
  rank(_request, candidates, random) {
    const count = candidates.length
    const { costs, terms, order } = sheet.open(count)
    for (let place = 0; place < count; place++) {
      const { requests, weight } = candidates[place]!
      terms.requests[place] = requests
      terms.weight[place] = weight
      costs[place] = (requests + 1) / weight
    }
    if (count < 2) return sheet
    const first = Math.floor(random() * count)
    const second = (first + 1 + Math.floor(random() * (count - 1))) % count
    order[0] = first
    order[1] = second
    for (let place = 0, at = 2; place < count; place++) if (place !== first && place !== second) order[at++] = place
    sortPlaces(order, costs, 0, 2)
    sortPlaces(order, costs, 2, count)
    return sheet
  },
})
