import type { RankedCandidate } from '../cluster/contract.ts'

export interface Price {
  readonly cost: number
  /** What the cost is made of, for `explain`. */
  readonly terms: Readonly<Record<string, number>>
}

/** Cheapest first; equal costs keep the order they came in, which is the tie order. */
export function byCost<C extends { readonly id: string }>(candidates: readonly C[], price: (candidate: C) => Price): RankedCandidate[] {
  return priced(candidates, price).sort((one, other) => one.cost - other.cost)
}

export interface Indifference<C> {
  /** Costs no further than this above the best are as good as it. */
  readonly within: number
  /** …where this holds as well. */
  readonly alike: (candidate: C, best: C) => boolean
}

/** The same, with a tie for all that are as good as the best: what nobody feels must not leave an engine out for good. */
export function byFeltCost<C extends { readonly id: string }>(candidates: readonly C[], price: (candidate: C) => Price, { within, alike }: Indifference<C>): RankedCandidate[] {
  const ranked = priced(candidates, price)
  if (within <= 0 || ranked.length < 2) return ranked.sort((one, other) => one.cost - other.cost)
  let best = 0
  for (let at = 1; at < ranked.length; at++) if (ranked[at]!.cost < ranked[best]!.cost) best = at
  const { cost: least } = ranked[best]!
  const good: RankedCandidate[] = []
  const others: RankedCandidate[] = []
  for (let at = 0; at < ranked.length; at++) {
    const felt = ranked[at]!.cost > least + within || !alike(candidates[at]!, candidates[best]!)
    ;(felt ? others : good).push(ranked[at]!)
  }
  return good.concat(others.sort((one, other) => one.cost - other.cost))
}

function priced<C extends { readonly id: string }>(candidates: readonly C[], price: (candidate: C) => Price): RankedCandidate[] {
  const ranked: RankedCandidate[] = []
  for (const candidate of candidates) {
    const { cost, terms } = price(candidate)
    ranked.push({ engine: candidate.id, cost, terms })
  }
  return ranked
}
