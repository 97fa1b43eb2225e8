/** Placement and runners-up from a policy and the candidates. Pure, synchronous, books nothing. */
import type { Placement, SplitConfig } from '../contract/contract.ts'
import type { Candidate, Policy, Random, RouteRequest, Signal } from './policy.ts'
import type { Ranking, RankingPool } from './ranking.ts'

export interface SplitFacts {
  /** Prompt length for the threshold. */
  readonly promptTokens: number
  /** Cached leading tokens on the best decode engine. */
  readonly cachedTokens: number
  /** Predicted TTFT unsplit and split, milliseconds; null: unknown. The split includes the KV transfer. */
  readonly splitTtftMs: number | null
  readonly wholeTtftMs: number | null
}

export interface SplitDecision {
  readonly split: boolean
  /** Comparison for the decision log. */
  readonly why: string
}

/** Decides whether prefill on another engine is worth the KV transfer. Called only if both are possible. */
export function decideSplit(facts: SplitFacts, config: SplitConfig): SplitDecision {
  const { promptTokens, cachedTokens, splitTtftMs, wholeTtftMs } = facts
  switch (config.mode) {
    case 'always':
      return { split: true, why: 'always' }
    case 'never':
      return { split: false, why: 'never' }
    case 'threshold':
      return from('prompt', promptTokens, config.thresholdTokens)
    case 'uncached':
      return from('uncached', promptTokens - cachedTokens, config.thresholdTokens)
    case 'adaptive':
      // Without both predictions, the uncached tokens decide.
      if (splitTtftMs === null || wholeTtftMs === null)
        return from('uncached', promptTokens - cachedTokens, config.thresholdTokens)
      return {
        split: splitTtftMs < wholeTtftMs,
        why: `split ${Math.round(splitTtftMs)} ms, whole ${Math.round(wholeTtftMs)} ms`,
      }
  }
}

export function shouldSplit(facts: SplitFacts, config: SplitConfig): boolean {
  return decideSplit(facts, config).split
}

/** A prompt of exactly the threshold is split (production-stack#890; its own unit test expects otherwise and fails). */
function from(what: string, tokens: number, threshold: number): SplitDecision {
  const split = tokens >= threshold
  return { split, why: `${tokens} ${what} tokens ${split ? '>=' : '<'} ${threshold}` }
}

/* Assigns the items of a request to encode engines. */

/** Maximum encode bookings of one request; further items share them. */
const MOST_LEGS = 32

/** Returns one engine per item, each the least loaded including earlier items. Empty: no encode engine. */
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

/** Candidates for one role, in tie order. */
export interface CandidateSet {
  readonly engines: readonly { readonly id: string }[]
  /** Engines with all needed signals. Other signals may be outdated. Valid until the next call. */
  candidates(needs: readonly Signal[]): readonly Candidate[]
}

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
  readonly splits: boolean
  /** Pool of ranking buffers. */
  readonly spare: RankingPool
  /** For `decode`, tokens to receive count as the tokens that take as long to compute. */
  field(part: 'whole' | 'prefill' | 'decode' | 'encode'): CandidateSet
  forecast(engine: string): {
    readonly ttftMs: number | null
    readonly cachedTokens: number | null
    /** Sum of the delays of the engine's running streams by the prefill. */ readonly stallMs?: number
    /** From a prefill's end elsewhere to the first token here. */ readonly handOverMs?: number
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

export type Routed =
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

/** Chooses decode first: it lasts longest, and its cache decides about the split. */
function routeSplit(input: RouteInput): Routed {
  const prefillField = input.field('prefill')
  // Without a split the decode engine computes what it has not cached; with one it receives that.
  const judgesWhole = input.split.mode === 'uncached' || input.split.mode === 'adaptive'
  let decoders = rankField(input, decodersBeside(prefillField, input.field(judgesWhole ? 'whole' : 'decode')))
  let decode = best(decoders)
  const prefillers = decode === null ? null : rankField(input, excluding(prefillField, decode))
  const prefill = prefillers === null ? null : best(prefillers)
  const decision = decode === null ? null : splitDecisionFor(input, prefill, decode)
  // Unsplit requests need no prefill engine.
  if (decision?.split === false) {
    input.spare.give([...decoders.ranked, ...(prefillers?.ranked ?? [])])
    return routeWhole(input, decision.why)
  }
  if (decode === null || prefillers === null || prefill === null || decision === null) {
    const missing = decode === null ? 'decode' : 'prefill'
    return input.split.fallback === 'fail'
      ? { empty: 'role', role: missing }
      : routeWhole(input, `no ${missing} engine can be had`)
  }
  if (judgesWhole) {
    input.spare.give(decoders.ranked)
    decoders = rankField(input, excluding(input.field('decode'), prefill))
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
  const whole = input.forecast(decode)
  const split = input.split.mode === 'adaptive' && prefill !== null ? input.forecast(prefill).ttftMs : null
  const facts = {
    promptTokens: input.split.mode === 'threshold' ? input.splitTokens : input.request.promptTokens,
    cachedTokens: whole.cachedTokens ?? 0,
    splitTtftMs: split === null ? null : split + (whole.handOverMs ?? 0),
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

/** Keeps engines that alone can prefill out of decode. */
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
