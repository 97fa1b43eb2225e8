/** Load of one engine with the request added. */
export interface Pressure {
  /**
   * Part of the predicted first token before the own prefill, including the network round trip. Negative where the
   * engine's steps make the first token sooner than the prefill alone: with `prefillMs` it is the reported prediction.
   */
  readonly waitMs: number
  /** Time by which the 90th percentile of the predicted first token is later. */
  readonly marginMs: number
  readonly prefillMs: number
  /** Time since the predicted first token of the oldest request without one. */
  readonly overdueMs: number
  /** Duration of a decode step with this request, without the delays by prefills in the predicted `itlS`. */
  readonly stepMs: number
  /** Share of the engine's time that prefills take, without this request. */
  readonly prefillShare: number
  /** Prefills that the running streams have to wait for. */
  readonly queuedMs: number
  /** Usual output of a response, tokens; null: unknown. */
  readonly outputTokens: number | null
  /** Share of the KV cache that live requests use, with this one. */
  readonly memoryShare: number
  /** Learned limit of the time between tokens; Infinity: none. */
  readonly stepLimitMs: number
  /** Live requests. */
  readonly requests: number
  /** Requests without a first token. */
  readonly waiting: number
  /** Prefills that the cost model has learned from. */
  readonly samples: number
}
