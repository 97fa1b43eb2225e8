import type { CostTable } from './cost-table.ts'

/** Request as policies see it. */
export interface RouteRequest {
  readonly id: string
  readonly model: string
  readonly adapter: string | null
  readonly promptTokens: number
  readonly blockTokens: number
  /** Full prompt blocks. */
  readonly blockCount: number
  /** As the client names it, within its tenant; null: not named. */
  readonly session: string | null
  readonly tenant: string
  /** As the request sets it. */
  readonly expectedOutputTokens: number | null
  /** Mean of the pool's responses; null: none yet. */
  readonly usualOutputTokens: number | null
}

/** Signals of one engine. A policy gets only the signals that it declares. */
export interface Signals {
  /** Requests booked on the engine and not released. */
  readonly requests: number
  /** Arrivals in the last 60 s, a sliding window. */
  readonly arrivals: number
  /** Virtual finish time of weighted round robin: the lowest is next. */
  readonly turn: number
  /** Decayed recent work: breaks ties, so that an idle fleet is used evenly. */
  readonly recentWork: number
  /** Decayed uncached tokens of recent prompts. */
  readonly recentNewTokens: number
  /** Blocks of live requests, shared ones counted once. */
  readonly activeBlocks: number
  /** Blocks of this prompt that no live request on the engine holds. */
  readonly newActiveBlocks: number
  /** Leading tokens of this prompt in blocks of live requests; -1 if the engine shares no blocks. */
  readonly liveTokens: number
  /** Live requests on the engine that hold the `liveTokens`. */
  readonly liveSharers: number
  /** Leading tokens of this prompt estimated as cached (maximum of index and lookup). Unknown: 0. */
  readonly cachedTokens: number
  /** Part of `cachedTokens` that is only in slower tiers: host memory, disk, or remote. */
  readonly slowTokens: { readonly host: number; readonly disk: number; readonly remote: number }
  /** Leading tokens found by an external lookup; missing when it failed. */
  readonly lookupTokens: number
  /** Queued prefills: booked prompts without a first token. */
  readonly queuedPrefills: number
  /** Mean of the engine's queued prefills in the last minutes. */
  readonly usualQueuedPrefills: number
  /** Uncached tokens of the queued prefills. */
  readonly queuedPrefillTokens: number
  /** Attention work of the queued prefills, by the formula of production-stack #670. */
  readonly queuedWork: number
  /** Seconds of the queued prefills by the learned cost model, less the elapsed time. */
  readonly queuedPrefillS: number
  /**
   * Part of it until the engine has a place for the request (`max_num_seqs`); 0: it has one, or its places are unknown.
   */
  readonly placeWaitS: number
  /**
   * Predicted time to the first token (core/latency/prediction.ts) beyond round trip, queued prefills, own prefill and
   * loads: what the engine's steps add, and the usual delay by prompts that arrive later.
   */
  readonly delayS: number
  readonly laterS: number
  /** Predicted seconds between two tokens of the engine's streams with this request, and what it adds to them. */
  readonly itlS: number
  readonly addedItlS: number
  /** Running and waiting requests from other sources, by the engine's latest report; 0: none, or no recent report. */
  readonly foreignRequests: number
  /** Capacity in KV blocks; Infinity: unknown. */
  readonly capacityBlocks: number
  readonly rttS: number
  /** Learned or prior coefficients of TTFT = fixedS + perTokenS*new + perPairS*(total² − cached²)/2. */
  readonly costModel: { readonly fixedS: number; readonly perTokenS: number; readonly perPairS: number }
  /** Confidence of the cost model: 0 prior only, towards 1 with consistent samples. */
  readonly confidence: number
  /** Warmth: 0 just joined or restarted, 1 warmed up. */
  readonly warmth: number
  /** Adapter affinity: 1 loaded, 0 must be loaded, -1 no room. */
  readonly adapterFit: number
}

export type Signal = keyof Signals

export type Candidate<Needs extends Signal = Signal> = { readonly id: string; readonly weight: number } & Pick<
  Signals,
  Needs
>

/** Source of randomness: returns a number in [0, 1). */
export type Random = () => number

/**
 * Ranks engines, best first. Pure except for its cost table: equal arguments and equal `random` give an equal order.
 * Candidates are in tie order (least recent work, then rotating); a stable sort keeps it.
 */
export interface Policy<Needs extends Signal = Signal> {
  readonly name: string
  readonly needs: readonly Needs[]
  /**
   * Returns the policy's own table, valid until its next ranking. Engines that are missing in it could not be ranked.
   */
  rank(request: RouteRequest, candidates: readonly Candidate<Needs>[], random: Random): CostTable
}

/** Infers `Needs` from the list, so a policy cannot read a signal it did not ask for. */
export const definePolicy = <const Needs extends Signal>(policy: Policy<Needs>): Policy<Needs> => policy
