import type { CostTable } from './cost-table.ts'
import type { Random } from './policy.ts'

/** Scale of the costs: the largest (dynamo#1731) or the range (Dynamo today). */
type SoftmaxScale = 'max' | 'range'

/**
 * Draws the winner with probability proportional to exp(-cost / (scale * temperature)); the others follow by cost.
 * Temperature 0 keeps the order. The table must be sorted by cost.
 */
export function softmax(costTable: CostTable, temperature: number, scale: SoftmaxScale, random: Random): CostTable {
  const { costs, order, ranked } = costTable
  if (temperature <= 0 || ranked < 2) return costTable
  const min = costs[order[0]!]!
  const max = costs[order[ranked - 1]!]!
  const unit = (scale === 'max' ? max : max - min) * temperature
  // Relative to the best, so that no exponent is positive. Equal costs: uniform.
  const weights = Array.from(order.subarray(0, ranked), (place) =>
    unit > 0 ? Math.exp(-(costs[place]! - min) / unit) : 1,
  )
  let draw = random() * weights.reduce((sum, weight) => sum + weight, 0)
  let winner = 0
  while (winner < ranked - 1 && (draw -= weights[winner]!) >= 0) winner++
  const drawn = order[winner]!
  order.copyWithin(1, 0, winner)
  order[0] = drawn
  return costTable
}
