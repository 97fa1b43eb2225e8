/** Limits of keys, and the messages between a gateway and the process that counts them. */

/** Limits of one key. null: no limit. */
export interface KeyLimits {
  readonly requestsPerMin: number | null
  readonly tokensPerMin: number | null
  /** Per day in UTC. */
  readonly tokensPerDay: number | null
  /** Requests that run at the same time. */
  readonly concurrent: number | null
}

export type LimitName = 'requests_per_min' | 'tokens_per_min' | 'tokens_per_day' | 'concurrent'

export interface LimitedRequest {
  readonly key: string
  /** Id of the request. */
  readonly id: string
  readonly limits: KeyLimits
  /** Estimated tokens of prompt and output. */
  readonly tokens: number
  /** Time without a renewal after which the request counts as ended, ms. Absent: an hour. */
  readonly leaseMs?: number
}

/** A reserved request that has not been settled. */
export type RunningRequest = Pick<LimitedRequest, 'key' | 'id'>

export interface Settlement {
  readonly key: string
  readonly id: string
  /** Tokens of prompt and output. null: unknown, so the estimate stays. */
  readonly tokens: number | null
}

/** State of one limit for the client. */
export interface LimitState {
  readonly limit: number
  readonly remaining: number
  /** Time until nothing of the limit is used, ms. */
  readonly resetMs: number
}

export interface LimitAnswer {
  /**
   * Limit that the request would exceed; `unavailable`: its state is unknown. null: the request is admitted and
   * reserved.
   */
  readonly exceeded: LimitName | 'unavailable' | null
  /** Time until the request would be admitted, ms. 0: admitted. */
  readonly retryAfterMs: number
  /** null: not limited. */
  readonly requests: LimitState | null
  /** null: not limited. */
  readonly tokens: LimitState | null
}
