import type { CostTable } from './cost-table.ts'
import { sortPlaces } from './sort-places.ts'

interface TieRule {
  /** Costs within this distance of the best are tied. */
  readonly tolerance: number
  /** Additional condition for a tie of two places. */
  readonly isTie: (place: number, best: number) => boolean
}

/**
 * Sorts by cost, with all ties of the best first, so that an imperceptible difference does not exclude an engine for
 * good.
 */
export function sortWithinTolerance(costTable: CostTable, { tolerance, isTie }: TieRule): CostTable {
  const { costs, order, ranked } = costTable
  if (tolerance <= 0 || ranked < 2) return costTable.byCost()
  let best = 0
  for (let place = 1; place < ranked; place++) if (costs[place]! < costs[best]!) best = place
  const maxCost = costs[best]! + tolerance
  let ties = 0
  let others = ranked
  for (let place = 0; place < ranked; place++) {
    if (!(costs[place]! > maxCost) && isTie(place, best)) order[ties++] = place
    else order[--others] = place
  }
  // The others are in reverse. Reversing a `subarray` takes twenty times as long.
  for (let low = ties, high = ranked - 1; low < high; low++, high--)
    [order[low], order[high]] = [order[high]!, order[low]!]
  sortPlaces(order, costs, ties, ranked)
  return costTable
}
