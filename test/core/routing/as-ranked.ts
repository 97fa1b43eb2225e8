import type { RankedCandidate } from '../../../src/core/cluster/contract.ts'
import type { Candidate, Policy, Random, RouteRequest, Signal } from '../../../src/core/routing/policy.ts'
import { Ranked } from '../../../src/core/routing/ranked.ts'

/** What a policy makes of the candidates, as `explain` tells it. */
export function asRanked<Needs extends Signal>(policy: Policy<Needs>, request: RouteRequest, candidates: readonly Candidate<Needs>[], random: Random): RankedCandidate[] {
  return new Ranked().take(policy.rank(request, candidates, random), candidates).candidates()
}
