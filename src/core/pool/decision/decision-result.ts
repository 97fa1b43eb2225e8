import type { Decision } from '../../contract/decision.ts'
import type { Refusal } from '../../contract/refusal.ts'
import type { Ranking } from '../../routing/ranking.ts'

/** Decision whose candidates are in `ranked`, as numbers. */
export interface Choice {
  readonly decision: Decision
  readonly ranked: readonly Ranking[]
}

export type DecisionResult = Choice | { readonly refusal: Refusal }
