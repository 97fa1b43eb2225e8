/** Rankings of described engines by one policy. Temperature 0 is the default, so a draw of a random number throws. */
import type { RankedCandidate } from '../../../src/core/contract/decision.ts'
import type { PolicyConfig } from '../../../src/core/contract/pool-config.ts'
import { policyKind } from '../../../src/core/routing/policies/policies.ts'
import type { Candidate, Policy, Random, RouteRequest, Signal, Signals } from '../../../src/core/routing/policy.ts'
import { Ranking } from '../../../src/core/routing/ranking.ts'

export const BLOCK_TOKENS = 64
export const costModel = { fixedS: 0.02, perTokenS: 1e-4, perPairS: 1e-9 }

const IDLE: Signals = {
  requests: 0,
  arrivals: 0,
  turn: 0,
  recentWork: 0,
  recentNewTokens: 0,
  activeBlocks: 0,
  newActiveBlocks: 0,
  liveTokens: 0,
  liveSharers: 0,
  placeWaitS: 0,
  delayS: 0,
  laterS: 0,
  itlS: 0.01,
  addedItlS: 0.0005,
  cachedTokens: 0,
  slowTokens: { host: 0, disk: 0, remote: 0 },
  lookupTokens: 0,
  queuedPrefills: 0,
  usualQueuedPrefills: 0,
  queuedPrefillTokens: 0,
  queuedWork: 0,
  queuedPrefillS: 0,
  foreignRequests: 0,
  capacityBlocks: Infinity,
  rttS: 0,
  costModel,
  confidence: 1,
  warmth: 1,
  adapterFit: 1,
}

/** A request with a prompt of so many tokens. */
export const routeRequest = (promptTokens = 1, changes: Partial<RouteRequest> = {}): RouteRequest => ({
  id: 'r',
  model: 'm',
  adapter: null,
  promptTokens,
  blockTokens: BLOCK_TOKENS,
  blockCount: Math.floor(promptTokens / BLOCK_TOKENS),
  session: null,
  tenant: '',
  expectedOutputTokens: null,
  usualOutputTokens: null,
  ...changes,
})

/** Idle engines of weight 1, by id, with these signals changed. */
export type Described = Readonly<Record<string, Partial<Omit<Candidate, 'id'>>>>

export const candidates = (described: Described): Candidate[] =>
  Object.entries(described).map(([id, changes]) => ({ weight: 1, ...IDLE, ...changes, id }))

export const policyNamed = (name: string, options: PolicyConfig['options'] = {}): Policy =>
  policyKind(name)!.create(options)

export const noChance: Random = () => {
  throw new Error('temperature 0 draws no random number')
}

/** Ranking of the candidates by a policy, in the format of `explain`. */
export function asRanked<Needs extends Signal>(
  policy: Policy<Needs>,
  request: RouteRequest,
  ranked: readonly Candidate<Needs>[],
  random: Random = noChance,
): RankedCandidate[] {
  return new Ranking().copy(policy.rank(request, ranked, random), ranked).candidates()
}

interface RankingBy {
  /** Ids of the engines, best first. */
  order(promptTokens: number, described: Described, options?: PolicyConfig['options']): string[]
  /** Costs by id. */
  costs(promptTokens: number, described: Described, options?: PolicyConfig['options']): Record<string, number>
}

/** Rankings by the policy with this name in configurations. */
export function rankingBy(name: string): RankingBy {
  const rank = (promptTokens: number, described: Described, options?: PolicyConfig['options']) =>
    asRanked(policyNamed(name, options), routeRequest(promptTokens), candidates(described))
  return {
    order: (...args) => rank(...args).map(({ engine }) => engine),
    costs: (...args) => Object.fromEntries(rank(...args).map(({ engine, cost }) => [engine, cost])),
  }
}
