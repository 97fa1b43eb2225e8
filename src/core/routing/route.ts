/** Placement and runners-up from a policy and the candidates. Pure, synchronous, books nothing. */
import type { Placement } from '../contract/placement.ts'
import type { SplitConfig } from '../contract/pool-config.ts'
import { assignEncoders } from './assign-encoders.ts'
import { type CandidateSet, excluding } from './candidate-set.ts'
import type { Policy, Random, RouteRequest } from './policy.ts'
import type { Ranking, RankingPool } from './ranking.ts'
import { decideSplit, type SplitDecision } from './split-decision.ts'

export interface RouteInput {
  readonly request: RouteRequest
  /** Policies: the first that can rank decides. Not empty. */
  readonly chain: readonly Policy[]
  readonly random: Random
  readonly split: SplitConfig
  /** Why the request cannot be split; null: it can. */
  readonly unsplittable: string | null
  readonly encodeItems: number
  /** Prompt length for the split's threshold. */
  readonly splitTokens: number
  /** Whether the pool has engines for split serving, available or not. */
  readonly canSplit: boolean
  /** Pool of ranking buffers. */
  readonly rankings: RankingPool
  /** For `decode`, tokens to receive count as the tokens that take as long to compute. */
  candidateSet(legRole: 'whole' | 'prefill' | 'decode' | 'encode'): CandidateSet
  prediction(engine: string): {
    readonly ttftMs: number | null
    readonly cachedTokens: number | null
    /** Sum of the delays of the engine's running streams by the prefill. */ readonly stallMs?: number
    /** From a prefill's end elsewhere to the first token here. */ readonly kvTransferMs?: number
  }
}

export interface RankResult {
  readonly policy: string
  readonly fallback: { readonly from: string; readonly reason: string } | null
  /** One ranking, or one per leg of a split. */
  readonly ranked: readonly Ranking[]
  /** Eligible engines for which a signal of the policy is missing. */
  readonly unranked: readonly string[]
}

export type RouteResult =
  | {
      readonly placement: Placement
      readonly ranking: RankResult
      /** Engine of the prefill. */
      readonly prefiller: string
      /** Why it was split or not; null: the pool never splits. */
      readonly why: string | null
    }
  | { readonly empty: 'whole' }
  /** No engine is available for this leg of a split that the configuration requires. */
  | { readonly empty: 'role'; readonly role: 'prefill' | 'decode' }

const MAX_RUNNERS_UP = 4

/** Ranks with the first policy of the chain that can rank an engine. */
export function rankCandidates(
  input: Pick<RouteInput, 'request' | 'chain' | 'random' | 'rankings'>,
  candidateSet: CandidateSet,
): RankResult {
  const configured = input.chain[0]!
  let reason = ''
  for (const policy of input.chain) {
    const candidates = candidateSet.candidates(policy.needs)
    const costTable = policy.rank(input.request, candidates, input.random)
    if (costTable.ranked === 0) {
      reason ||=
        candidates.length > 0
          ? 'it ranked no engine'
          : policy.needs.includes('lookupTokens')
            ? 'no LMCache lookup result for the prompt'
            : 'its signals are known for no engine'
      continue
    }
    const ranked = input.rankings.next().copy(costTable, candidates)
    const fallback = policy === configured ? null : { from: configured.name, reason }
    return { policy: policy.name, fallback, ranked: [ranked], unranked: missingFrom(ranked, candidateSet) }
  }
  return { policy: configured.name, fallback: null, ranked: [], unranked: candidateSet.engines.map(({ id }) => id) }
}

/** Chooses engines for the legs of a request in a pool whose engines have roles. */
export function routeLegs(input: RouteInput): RouteResult {
  const encode = input.encodeItems > 0 ? assignEncoders(input.candidateSet('encode'), input.encodeItems) : []
  const routed = routeParts(input)
  if (encode.length === 0 || 'empty' in routed) return routed
  const { placement } = routed
  const legs =
    placement.kind === 'split'
      ? { prefill: placement.prefill, decode: placement.decode }
      : { prefill: null, decode: routed.prefiller }
  return { ...routed, placement: { kind: 'staged', encode, ...legs, runnersUp: placement.runnersUp } }
}

function routeParts(input: RouteInput): RouteResult {
  if (!input.canSplit) return routeWhole(input, null)
  if (input.unsplittable !== null) return routeWhole(input, `cannot be split: ${input.unsplittable}`)
  return input.split.mode === 'never' ? routeWhole(input, 'never') : routeSplit(input)
}

/** Chooses one engine for all of a request. */
export function routeWhole(input: RouteInput, why: string | null): RouteResult {
  const candidateSet = input.candidateSet('whole')
  if (candidateSet.engines.length === 0) return { empty: 'whole' }
  const ranking = rankCandidates(input, candidateSet)
  const [ranked] = ranking.ranked
  const engine = ranked?.engine(0)
  if (ranked === undefined || engine === undefined) return { empty: 'whole' }
  return {
    placement: { kind: 'whole', engine, runnersUp: ranked.engines(1, 1 + MAX_RUNNERS_UP) },
    ranking,
    prefiller: engine,
    why,
  }
}

/** Chooses decode first: it lasts longest, and its cache decides about the split. */
function routeSplit(input: RouteInput): RouteResult {
  const prefillCandidates = input.candidateSet('prefill')
  // Without a split the decode engine computes what it has not cached; with one it receives that.
  const usesUnsplitCost = input.split.mode === 'uncached' || input.split.mode === 'adaptive'
  let decoders = rankCandidates(
    input,
    decodersBeside(prefillCandidates, input.candidateSet(usesUnsplitCost ? 'whole' : 'decode')),
  )
  let decode = best(decoders)
  const prefillers = decode === null ? null : rankCandidates(input, excluding(prefillCandidates, decode))
  const prefill = prefillers === null ? null : best(prefillers)
  const decision = decode === null ? null : splitDecisionFor(input, prefill, decode)
  // Unsplit requests need no prefill engine.
  if (decision?.split === false) {
    input.rankings.give([...decoders.ranked, ...(prefillers?.ranked ?? [])])
    return routeWhole(input, decision.why)
  }
  if (decode === null || prefillers === null || prefill === null || decision === null) {
    const missing = decode === null ? 'decode' : 'prefill'
    return input.split.fallback === 'fail'
      ? { empty: 'role', role: missing }
      : routeWhole(input, `no ${missing} engine is available`)
  }
  if (usesUnsplitCost) {
    input.rankings.give(decoders.ranked)
    decoders = rankCandidates(input, excluding(input.candidateSet('decode'), prefill))
    decode = best(decoders) ?? decode
  }
  const ranking = { ...decoders, ranked: [...prefillers.ranked, ...decoders.ranked] }
  return {
    placement: { kind: 'split', prefill, decode, runnersUp: runnersUp(decoders, [prefill, decode]) },
    ranking,
    prefiller: prefill,
    why: decision.why,
  }
}

/** Weight of a second that a running stream is delayed, against a second of TTFT: `decodeWeight` of `predicted`. */
const STALL_WEIGHT = 0.05

/** @param prefill null: no engine available, so no prediction for a split */
function splitDecisionFor(input: RouteInput, prefill: string | null, decode: string): SplitDecision {
  const whole = input.prediction(decode)
  const split = input.split.mode === 'adaptive' && prefill !== null ? input.prediction(prefill).ttftMs : null
  const facts = {
    promptTokens: input.split.mode === 'threshold' ? input.splitTokens : input.request.promptTokens,
    cachedTokens: whole.cachedTokens ?? 0,
    splitTtftMs: split === null ? null : split + (whole.kvTransferMs ?? 0),
    wholeTtftMs: whole.ttftMs === null ? null : whole.ttftMs + STALL_WEIGHT * (whole.stallMs ?? 0),
  }
  return decideSplit(facts, input.split)
}

function missingFrom(ranked: Ranking, { engines }: CandidateSet): string[] {
  if (ranked.count === engines.length) return []
  const rankedIds = new Set(ranked.engines())
  return engines.flatMap(({ id }) => (rankedIds.has(id) ? [] : [id]))
}

function best(ranking: RankResult): string | null {
  return ranking.ranked[0]?.engine(0) ?? null
}

function runnersUp({ ranked }: RankResult, chosen: readonly string[]): string[] {
  const engines = ranked.flatMap((one) => one.engines(0, chosen.length + MAX_RUNNERS_UP))
  return engines.filter((engine) => !chosen.includes(engine)).slice(0, MAX_RUNNERS_UP)
}

/** Keeps engines that alone can prefill out of decode. */
function decodersBeside({ engines }: CandidateSet, decoders: CandidateSet): CandidateSet {
  const [only, ...others] = engines
  return only === undefined || others.length > 0 || decoders.engines.length < 2
    ? decoders
    : excluding(decoders, only.id)
}
