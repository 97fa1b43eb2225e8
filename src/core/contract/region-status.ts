/** Status of another gateway, for operators. */
export interface RegionStatus {
  /** The last request for a digest was answered, within a second. */
  readonly reachable: boolean
  /** Age of the last digest, ms. */
  readonly ageMs: number
  /** Round-trip time: as configured, or the minimum of the last measurements. */
  readonly rttMs: number
  /** Prompts are divided into blocks as here, so the contents of its caches are known. */
  readonly blockingMatch: boolean
  /** Available engines. 0: none, or the gateway is unreachable. */
  readonly engines: number
  /** Booked requests of all senders. */
  readonly requests: number
  /** Booked requests without a first token. */
  readonly queued: number
  /** Predicted TTFT of an uncached prompt of `TYPICAL_TOKENS`. null: no engine is available. */
  readonly expectedTtftMs: number | null
}
