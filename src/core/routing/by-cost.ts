import type { RankedCandidate } from '../cluster/contract.ts'

export interface Price {
  readonly cost: number
  /** What the cost is made of, for `explain`. */
  readonly terms: Readonly<Record<string, number>>
}

/** Cheapest first; equal costs keep the order they came in, which is the tie order. */
export function byCost<C extends { readonly id: string }>(candidates: readonly C[], price: (candidate: C) => Price): RankedCandidate[] {
  const ranked: RankedCandidate[] = []
  for (const candidate of candidates) {
    const { cost, terms } = price(candidate)
    ranked.push({ engine: candidate.id, cost, terms })
  }
  return ranked.sort((one, other) => one.cost - other.cost)
}
