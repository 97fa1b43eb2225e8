import type { RankedCandidate } from '../cluster/contract.ts'
import type { Random } from './policy.ts'

/** What costs are divided by before the temperature: the largest (dynamo#1731) or the spread (Dynamo today). */
export type Scale = 'max' | 'range'

/**
 * Draws the winner with probability proportional to exp(-cost / (scale * temperature)); the others follow by cost.
 * Temperature 0 keeps the order. `ranked` is sorted by cost.
 */
export function softmax(ranked: RankedCandidate[], temperature: number, scale: Scale, random: Random): RankedCandidate[] {
  if (temperature <= 0 || ranked.length < 2) return ranked
  const least = ranked[0]!.cost
  const most = ranked[ranked.length - 1]!.cost
  const unit = (scale === 'max' ? most : most - least) * temperature
  // Relative to the best, so that no exponent is positive; all equal: uniform.
  const weights = ranked.map(({ cost }) => (unit > 0 ? Math.exp(-(cost - least) / unit) : 1))
  let draw = random() * weights.reduce((sum, weight) => sum + weight, 0)
  let winner = 0
  while (winner < ranked.length - 1 && (draw -= weights[winner]!) >= 0) winner++
  return winner === 0 ? ranked : [ranked[winner]!, ...ranked.slice(0, winner), ...ranked.slice(winner + 1)]
}
