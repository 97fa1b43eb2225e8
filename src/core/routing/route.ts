/** From a policy and the engines that may be chosen to a placement with its runners-up. Pure, synchronous, no booking. */
import type { Placement, SplitConfig } from '../contract/contract.ts'
import type { Candidate, Policy, Random, RouteRequest, Signal } from './policy.ts'
import type { Ranking, RankingPool } from './ranking.ts'
import { splitVerdict, type SplitVerdict } from './split.ts'

/* Which encoder takes which item of a request. */

/** Bookings of one request on encoders; items beyond share them. */
const MOST_LEGS = 32

/** One entry per item, each the encoder with the least to do, counting the items given before. Empty: there is no encoder. */
export function assignEncoders(field: CandidateSet, items: number): readonly string[] {
  const loads = field
    .candidates(['requests'])
    .map(({ id, weight, requests }) => ({ id, weight: Math.max(weight, Number.MIN_VALUE), items: requests }))
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

/** The engines that may do one part, in tie order. */
export interface CandidateSet {
  readonly engines: readonly { readonly id: string }[]
  /** Those whose needed signals are all there; what else they carry is old. Good until the next call. */
  candidates(needs: readonly Signal[]): readonly Candidate[]
}

export interface RouteInput {
  readonly request: RouteRequest
  /** The first that can rank decides; the others are its fallbacks. Not empty. */
  readonly chain: readonly Policy[]
  readonly random: Random
  readonly split: SplitConfig
  /** Why the request cannot be split; null: it can. */
  readonly unsplittable: string | null
  readonly encodeItems: number
  /** Prompt length as the split's threshold counts it. */
  readonly splitTokens: number
  /** Does the pool have engines for split serving at all, available or not? */
  readonly splits: boolean
  /** Where rankings are written. */
  readonly spare: RankingPool
  field(part: 'whole' | 'prefill' | 'decode' | 'encode'): CandidateSet
  forecast(engine: string): {
    readonly ttftMs: number | null
    readonly cachedTokens: number | null
    /** From a prefill's end elsewhere to the first token here. */ readonly handOverMs?: number
  }
}

export interface RankResult {
  readonly policy: string
  readonly fallback: { readonly from: string; readonly reason: string } | null
  /** One, or those of both halves of a split. */
  readonly ranked: readonly Ranking[]
  /** Engines that could have been chosen, had the policy not lacked a signal of theirs. */
  readonly unranked: readonly string[]
}

export type Routed =
  | {
      readonly placement: Placement
      readonly ranking: RankResult
      /** Engine whose prefill the first token waits for. */
      readonly prefiller: string
      /** Why it was split or not; null: the pool never splits. */
      readonly why: string | null
    }
  | { readonly empty: 'whole' | 'role' }

const MAX_RUNNERS_UP = 4

/** Ranks by the first policy of the chain that can rank anyone. */
export function rankField(
  input: Pick<RouteInput, 'request' | 'chain' | 'random' | 'spare'>,
  field: CandidateSet,
): RankResult {
  const configured = input.chain[0]!
  let reason = ''
  for (const policy of input.chain) {
    const candidates = field.candidates(policy.needs)
    const costTable = policy.rank(input.request, candidates, input.random)
    if (costTable.ranked === 0) {
      reason ||=
        candidates.length > 0
          ? 'it ranked no engine'
          : policy.needs.includes('lookupTokens')
            ? 'no LMCache lookup told what engines hold of the prompt'
            : 'what it goes by is known of no engine'
      continue
    }
    const ranked = input.spare.next().take(costTable, candidates)
    const fallback = policy === configured ? null : { from: configured.name, reason }
    return { policy: policy.name, fallback, ranked: [ranked], unranked: missingFrom(ranked, field) }
  }
  return { policy: configured.name, fallback: null, ranked: [], unranked: field.engines.map(({ id }) => id) }
}

export function route(input: RouteInput): Routed {
  const encode = input.encodeItems > 0 ? assignEncoders(input.field('encode'), input.encodeItems) : []
  const routed = routeParts(input)
  if (encode.length === 0 || 'empty' in routed) return routed
  const { placement } = routed
  const legs =
    placement.kind === 'split'
      ? { prefill: placement.prefill, decode: placement.decode }
      : { prefill: null, decode: routed.prefiller }
  return { ...routed, placement: { kind: 'staged', encode, ...legs, runnersUp: placement.runnersUp } }
}

function routeParts(input: RouteInput): Routed {
  if (!input.splits) return routeWhole(input, null)
  if (input.unsplittable !== null) return routeWhole(input, `cannot be split: ${input.unsplittable}`)
  return input.split.mode === 'never' ? routeWhole(input, 'never') : routeSplit(input)
}

function routeWhole(input: RouteInput, why: string | null): Routed {
  const field = input.field('whole')
  if (field.engines.length === 0) return { empty: 'whole' }
  const ranking = rankField(input, field)
  const engine = best(ranking)
  if (engine === null) return { empty: 'whole' }
  return {
    placement: { kind: 'whole', engine, runnersUp: runnersUp(ranking, [engine]) },
    ranking,
    prefiller: engine,
    why,
  }
}

/** Decode is chosen first: it keeps the request longest, and its cache decides whether to split. */
function routeSplit(input: RouteInput): Routed {
  const prefillField = input.field('prefill')
  const decoders = rankField(input, decodersBeside(prefillField, input.field('decode')))
  const decode = best(decoders)
  const prefillers = decode === null ? null : rankField(input, excluding(prefillField, decode))
  const prefill = prefillers === null ? null : best(prefillers)
  const verdict = decode === null ? null : verdictOn(input, prefill, decode)
  // What is not to be split misses nobody.
  if (verdict?.split === false) {
    input.spare.give([...decoders.ranked, ...(prefillers?.ranked ?? [])])
    return routeWhole(input, verdict.why)
  }
  if (decode === null || prefillers === null || prefill === null || verdict === null) {
    const missing = decode === null ? 'decode' : 'prefill'
    return input.split.fallback === 'fail' ? { empty: 'role' } : routeWhole(input, `no ${missing} engine can be had`)
  }
  const ranking = { ...decoders, ranked: [...prefillers.ranked, ...decoders.ranked] }
  return {
    placement: { kind: 'split', prefill, decode, runnersUp: runnersUp(decoders, [prefill, decode]) },
    ranking,
    prefiller: prefill,
    why: verdict.why,
  }
}

/** @param prefill null: nobody can be had, so nothing is predicted of a split */
function verdictOn(input: RouteInput, prefill: string | null, decode: string): SplitVerdict {
  const whole = input.forecast(decode)
  const split = input.split.mode === 'adaptive' && prefill !== null ? input.forecast(prefill).ttftMs : null
  const facts = {
    promptTokens: input.split.mode === 'threshold' ? input.splitTokens : input.request.promptTokens,
    cachedTokens: whole.cachedTokens ?? 0,
    splitTtftMs: split === null ? null : split + (whole.handOverMs ?? 0),
    wholeTtftMs: whole.ttftMs,
  }
  return splitVerdict(facts, input.split)
}

function missingFrom(ranked: Ranking, { engines }: CandidateSet): string[] {
  if (ranked.count === engines.length) return []
  const rankedIds = new Set(ranked.engines())
  return engines.flatMap(({ id }) => (rankedIds.has(id) ? [] : [id]))
}

function best(ranking: RankResult): string | null {
  return ranking.ranked[0]?.engine(0) ?? null
}

function runnersUp(ranking: RankResult, chosen: readonly string[]): string[] {
  const others: string[] = []
  for (const ranked of ranking.ranked) {
    for (let rank = 0; rank < ranked.count && others.length < MAX_RUNNERS_UP; rank++) {
      const engine = ranked.engine(rank)!
      if (!chosen.includes(engine)) others.push(engine)
    }
  }
  return others
}

/** Who alone can prefill is left to it, though it could decode as well. */
function decodersBeside({ engines }: CandidateSet, decoders: CandidateSet): CandidateSet {
  const [only, ...others] = engines
  return only === undefined || others.length > 0 || decoders.engines.length < 2
    ? decoders
    : excluding(decoders, only.id)
}

function excluding(field: CandidateSet, engine: string): CandidateSet {
  return {
    engines: field.engines.filter(({ id }) => id !== engine),
    candidates: (needs) => field.candidates(needs).filter(({ id }) => id !== engine),
  }
}
