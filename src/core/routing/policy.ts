import type { CostTable } from './cost-table.ts'

/** What the shadow policy would have done in a choice. */
export interface ShadowChoice {
  readonly policy: string
  readonly engine: string
  readonly predictedTtftMs: number | null
  /** It would have chosen the same. Absent from older objects, as is the next. */
  readonly agrees?: boolean
  /** How much sooner its engine's first token is expected; negative: later. null: the choice was split, or nothing is known. */
  readonly predictedGainMs?: number | null
}

/** What a policy may know of the request. */
export interface RouteRequest {
  readonly id: string
  readonly model: string
  readonly adapter: string | null
  readonly promptTokens: number
  readonly blockTokens: number
  /** Full prompt blocks. */
  readonly blockCount: number
  /** Hash of the first blocks, or of the id when there is none: for affinity without an index. */
  readonly prefixKey: number
  readonly session: string | null
  readonly expectedOutputTokens: number | null
}

/** What the gateway can know about an engine. A policy names the ones it reads, and gets only those. */
export interface Signals {
  /** Requests booked on the engine and not released. */
  readonly requests: number
  /** Arrivals in the last 60 s, a sliding window. */
  readonly arrivals: number
  /** Virtual time of the engine's next turn; weighted fair turns pick the least. */
  readonly turn: number
  /** Work of the recent past, decayed; breaks ties so that an idle fleet is used in turn. */
  readonly recentWork: number
  /** Blocks held by live requests, shared ones once. */
  readonly activeBlocks: number
  /** Blocks of this prompt that no live request on the engine holds. */
  readonly newActiveBlocks: number
  /** Leading tokens of this prompt in blocks that live requests on the engine hold; -1 where it keeps nothing that others could use. */
  readonly liveTokens: number
  /** Leading tokens of this prompt believed cached there (index and lookup, by maximum). Unknown = 0 = cold. */
  readonly cachedTokens: number
  /** Of `cachedTokens`, those that a lookup saw only in slower tiers: the engine's host memory, its disk, or elsewhere. */
  readonly slowTokens: { readonly host: number; readonly disk: number; readonly remote: number }
  /** Leading tokens found by an external lookup; missing when it failed. */
  readonly lookupTokens: number
  /** Prompts booked there with no first token yet. */
  readonly queuedPrefills: number
  /** Prompt tokens to prefill, booked there with no first token yet. */
  readonly queuedPrefillTokens: number
  /** Sum of trapezoid work of the same, the formula of production-stack #670. */
  readonly queuedWork: number
  /** Seconds of the same by the learned law, less what time has drained. */
  readonly queuedPrefillS: number
  /** The engine's own running + waiting, from a fresh scrape; missing when stale. */
  readonly reportedQueue: number
  /** KV blocks it can hold; Infinity when unknown. */
  readonly capacityBlocks: number
  readonly rttS: number
  /** Learned or prior coefficients of TTFT = fixedS + perTokenS*new + perPairS*(total² − cached²)/2. */
  readonly costModel: { readonly fixedS: number; readonly perTokenS: number; readonly perPairS: number }
  /** How far the law is learned: 0 nothing but a prior, towards 1 with samples that agree. */
  readonly confidence: number
  /** Seconds between two output tokens = baseS + perRequestS * running + perBlockS * blocks. */
  readonly decodeCostModel: { readonly baseS: number; readonly perRequestS: number; readonly perBlockS: number }
  /** 0 for an engine that has just joined or restarted, 1 once it has been there for a while. */
  readonly warmth: number
  /** 1 when the engine has the adapter loaded, 0 when it must load it, -1 when it has no room. */
  readonly adapterFit: number
}

export type Signal = keyof Signals
export type Candidate<Needs extends Signal = Signal> = { readonly id: string; readonly weight: number } & Pick<
  Signals,
  Needs
>

/** Chance, passed in: a number in [0, 1). */
export type Random = () => number

/**
 * Ranks engines, best first. Pure but for its sheet: equal arguments (and an equal `random`) give an equal order.
 * Candidates come in tie order (least recent work, then a rotating index): a stable sort keeps it for equal costs.
 */
export interface Policy<Needs extends Signal = Signal> {
  readonly name: string
  readonly needs: readonly Needs[]
  /** The sheet is the policy's own, until its next ranking. Who is not among those ranked was not rankable by this policy. */
  rank(request: RouteRequest, candidates: readonly Candidate<Needs>[], random: Random): CostTable
}

/** Infers `Needs` from the list, so a policy cannot read a signal it did not ask for. */
export const definePolicy = <const Needs extends Signal>(policy: Policy<Needs>): Policy<Needs> => policy
