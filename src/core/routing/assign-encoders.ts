import type { CandidateSet } from './candidate-set.ts'

/** Maximum encode bookings of one request; further items share them. */
const MAX_LEGS = 32

/** Returns one engine per item, each the least loaded including earlier items. Empty: no encode engine. */
export function assignEncoders(encoders: CandidateSet, items: number): readonly string[] {
  const loads = encoders
    .candidates(['requests'])
    .map(({ id, weight, requests }) => ({ id, weight: Math.max(weight, Number.MIN_VALUE), items: requests }))
  if (loads.length === 0) return []
  const chosen: string[] = []
  for (let item = 0; item < Math.min(items, MAX_LEGS); item++) {
    let leastLoaded = loads[0]!
    for (const load of loads)
      if ((load.items + 1) / load.weight < (leastLoaded.items + 1) / leastLoaded.weight) leastLoaded = load
    leastLoaded.items += 1
    chosen.push(leastLoaded.id)
  }
  return chosen
}
