import type { RankedCandidate } from '../../../src/core/contract/decision.ts'
import type { Candidate, Policy, Random, RouteRequest, Signal } from '../../../src/core/routing/policy.ts'
import { Ranking } from '../../../src/core/routing/ranking.ts'

/** Ranking of the candidates by a policy, in the format of `explain`. */
export function asRanked<Needs extends Signal>(
  policy: Policy<Needs>,
  request: RouteRequest,
  candidates: readonly Candidate<Needs>[],
  random: Random,
): RankedCandidate[] {
  return new Ranking().copy(policy.rank(request, candidates, random), candidates).candidates()
}
