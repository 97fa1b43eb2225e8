import type { Sheet } from './sheet.ts'
import { sortPlaces } from './sort-places.ts'

export interface Indifference {
  /** Costs no further than this above the best are as good as it. */
  readonly within: number
  /** …where this holds of the two places as well. */
  readonly alike: (place: number, best: number) => boolean
}

/** Cheapest first, with a tie for all that are as good as the best: what nobody feels must not leave an engine out for good. */
export function byFeltCost(sheet: Sheet, { within, alike }: Indifference): Sheet {
  const { costs, order, ranked } = sheet
  if (within <= 0 || ranked < 2) return sheet.byCost()
  let best = 0
  for (let place = 1; place < ranked; place++) if (costs[place]! < costs[best]!) best = place
  const most = costs[best]! + within
  let good = 0
  let others = ranked
  for (let place = 0; place < ranked; place++) {
    if (!(costs[place]! > most) && alike(place, best)) order[good++] = place
    else order[--others] = place
  }
  order.subarray(good, ranked).reverse()
  sortPlaces(order, costs, good, ranked)
  return sheet
}
