/** Which encoder takes which item of a request. */
import type { Field } from './route.ts'

/** Bookings of one request on encoders; items beyond share them. */
const MOST_LEGS = 32

/** One entry per item, each the encoder with the least to do, counting the items given before. Empty: there is no encoder. */
export function encodersFor(field: Field, items: number): readonly string[] {
  const loads = field.candidates(['requests']).map(({ id, weight, requests }) => ({ id, weight: Math.max(weight, Number.MIN_VALUE), items: requests }))
  if (loads.length === 0) return []
  const chosen: string[] = []
  for (let item = 0; item < Math.min(items, MOST_LEGS); item++) {
    let least = loads[0]!
    for (const load of loads) if ((load.items + 1) / load.weight < (least.items + 1) / least.weight) least = load
    least.items += 1
    chosen.push(least.id)
  }
  return chosen
}
