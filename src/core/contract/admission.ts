import type { EarlyLegRole } from './legs.ts'

/** Cached prefix found by a lookup before admission, e.g. in LMCache. */
export interface CacheHint {
  readonly engine: string
  readonly matchedTokens: number
  readonly tier: 'device' | 'host' | 'disk' | 'remote'
}

/** Options that a request may override if its key allows it. */
export interface Overrides {
  readonly policy?: string
  readonly overlapWeight?: number
  readonly temperature?: number
}

/** `sheddable` requests are refused first, `critical` ones go first in the queue. */
export type RequestClass = 'critical' | 'standard' | 'sheddable'

export type TokenSource = 'exact' | 'engine' | 'ids' | 'bytes'

/** The first byte is late (hedge), or the engine may be wedged: only then another one is wanted (rescue). */
export type SecondReason =
  | { readonly kind: 'hedge' }
  | {
      readonly kind: 'rescue'
      /** Id of the engine that may be wedged. */
      readonly from: string
      /** Number of the attempt that runs there. */
      readonly attempt: number
    }

export type SecondKind = SecondReason['kind']

export interface Admission {
  readonly version: number
  /** Id made by the gateway, never by the client. */
  readonly id: string
  /** Version of the gateway's configuration. */
  readonly configVersion: number
  /** Model name as the engine knows it (an adapter's name where one was asked for). */
  readonly model: string
  /** Adapter name; null for the base model. */
  readonly adapter: string | null
  readonly promptTokens: number
  readonly tokenSource: TokenSource
  /** Chained hashes of the full blocks, two 32-bit lanes per block: [lo0, hi0, lo1, hi1, …]. */
  readonly blocks: Uint32Array
  readonly session: string | null
  /** Lower is more urgent, as in vLLM. */
  readonly priority: number
  readonly expectedOutputTokens: number | null
  /** Most output tokens of one answer, as the client limits them. Absent: no limit. */
  readonly outputLimitTokens?: number
  /** Whether the first token is visible when it is produced. Absent: unknown. */
  readonly streams?: boolean
  /** Whether the output of a stream is reported as it comes. Absent: not. */
  readonly reportsOutput?: boolean
  readonly tenant: string
  /** Class under overload. Absent: `standard`. */
  readonly requestClass?: RequestClass
  /** Share of the key relative to others under overload. Absent: 1. */
  readonly keyWeight?: number
  /** Time that the client leaves for the first token, ms. Absent: no limit of its own. */
  readonly ttftDeadlineMs?: number
  readonly overrides: Overrides | null
  /** Lookup results; null: no lookup, or it failed; []: nothing found. */
  readonly hints: readonly CacheHint[] | null
  /**
   * For a Durable Object that is the LMCache registry: keys of the prompt's chunks, two lanes each, from which it
   * makes hints.
   */
  readonly chunks?: { readonly keys: Uint32Array; readonly tokens: number; readonly shared: boolean } | null
  /** Why the request cannot be split; null: it can. */
  readonly unsplittable: string | null
  /** Prompt length that a split's `threshold` uses; absent: `promptTokens`. */
  readonly splitTokens?: number
  /** The engine recomputes the whole prompt, because its tokens are scored. Absent: it does not. */
  readonly computesAll?: boolean
  /** Parallel responses (`n`) per prompt. Absent: one. */
  readonly sequences?: number
  /** Multimodal items to encode. */
  readonly encodeItems: number
  /** 0 for the first attempt; later ones use the retry budget. */
  readonly attempt: number
  /**
   * Earlier attempts caused no work on an engine (full, paused, out of reach, without the adapter or the route), or a
   * drain moves the stream: this attempt is no retry. Absent: it is one, unless it is the first.
   */
  readonly moved?: boolean
  /**
   * Legs in which all earlier attempts failed: no engine was asked for the response. A placement without these legs is
   * no retry. Absent: an engine was asked, or there was no earlier attempt.
   */
  readonly failedLegs?: readonly EarlyLegRole[]
  /** Why a second engine is wanted while an earlier attempt still runs. Absent: all earlier ones failed. */
  readonly second?: SecondReason
  /**
   * An engine with a context of so many tokens has refused the request as too long, so only engines that are known to
   * have a larger one can serve it. Absent: none has.
   */
  readonly beyondContextTokens?: number
  /** Engines that already failed this request, or are at it. */
  readonly avoid: readonly string[]
  /** No other cluster is left, so an engine with an open circuit is acceptable. Absent: there may be one. */
  readonly isLastResort?: boolean
  /** Requests that the gateway has refused in place of the pool since its last call. Absent: none. */
  readonly edgeRefusals?: number
}
