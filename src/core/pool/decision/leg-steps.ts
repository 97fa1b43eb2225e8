import type { Decision, ExcludedEngine } from '../../contract/decision.ts'
import type { LegRole } from '../../contract/legs.ts'
import type { PoolConfig } from '../../contract/pool-config.ts'
import type { CandidateSet } from '../../routing/candidate-set.ts'
import { type RankResult, routeLegs, routeWhole, type RouteInput, type RouteResult } from '../../routing/route.ts'
import { candidateSet, receivingCandidateSet } from './candidate-set.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import { rolesOf, supportsRole } from './roles.ts'
import type { SignalReader } from '../signals/signal-reader.ts'

type Routed = Exclude<RouteResult, { readonly empty: unknown }>

/** Steps of a decision that depend on the roles of the engines. */
export interface LegSteps {
  /** Candidates for a leg among these engines. */
  candidateSet(engines: readonly EngineState[], legRole: LegRole, reading: SignalReader): CandidateSet
  route(input: RouteInput): RouteResult
  /** Eligible engines that were not ranked, each with the reason. */
  unranked(ranking: RankResult, eligible: readonly EngineState[]): readonly ExcludedEngine[]
  /** Field of the decision that describes the split. */
  splitOf(routed: Routed): Pick<Decision, 'split'>
}

const NOT_SPLIT: Pick<Decision, 'split'> = {}

/** All engines do all of a request. */
const wholeRequests: LegSteps = {
  candidateSet: (engines, _, reading) => candidateSet(engines, reading),
  route: (input) => routeWhole(input, null),
  unranked: ({ unranked }) => unranked.map((engine) => ({ engine, reason: 'signal_missing' })),
  splitOf: () => NOT_SPLIT,
}

/** Engines have roles: a request may have several legs. */
const legsByRole: LegSteps = {
  candidateSet(engines, legRole, reading) {
    const able = engines.filter(({ spec }) => supportsRole(spec.role, legRole))
    return legRole === 'decode' ? receivingCandidateSet(able, reading) : candidateSet(able, reading)
  },
  route: routeLegs,
  unranked(ranking, eligible) {
    if (ranking.ranked.length === 1 && ranking.ranked[0]!.count === eligible.length) return []
    const ranked = new Set(ranking.ranked.flatMap((one) => one.engines()))
    const unranked = new Set(ranking.unranked)
    return eligible
      .filter(({ spec }) => !ranked.has(spec.id))
      .map(({ spec }) => ({ engine: spec.id, reason: unranked.has(spec.id) ? 'signal_missing' : 'role' }))
  },
  splitOf: ({ why, placement }) =>
    why === null ? NOT_SPLIT : { split: { taken: placement.kind !== 'whole' && placement.prefill !== null, why } },
}

export const legStepsOf = (pool: PoolConfig): LegSteps => (rolesOf(pool).differ ? legsByRole : wholeRequests)
