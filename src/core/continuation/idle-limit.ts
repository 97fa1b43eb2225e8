/** Time without a byte after which a stream that can be continued counts as failed. */

/** Streams are not continued earlier than this, ms: a long prompt or a preemption stops an engine for seconds. */
const MIN_LIMIT_MS = 5_000

/** The limit is this many times the 99th percentile of the time between two reads. */
const FACTOR = 20

/** Reads before a limit is derived. */
const MIN_READS = 200

const QUANTILE = 0.99

/** Step of the estimate, as a power of e: a gap above it raises it by 64 %, one below lowers it by 0.5 %. */
const STEP = 0.5

/**
 * 99th percentile of the gaps of an engine's streams, estimated without keeping them (Robbins and Monro, 1951).
 * @testing
 */
export class IdleLimit {
  #estimateMs = 1
  #reads = 0

  /** Adds the time that one read waited for the engine, ms. */
  add(gapMs: number): void {
    this.#reads++
    const direction = gapMs > this.#estimateMs ? QUANTILE : QUANTILE - 1
    this.#estimateMs = Math.max(1, this.#estimateMs * Math.exp(STEP * direction))
  }

  /**
   * Limit for a new stream, ms.
   * @param configuredMs `limits.idle_ms`, the highest limit; 0: none, and none is derived
   */
  limitMs(configuredMs: number): number {
    if (configuredMs === 0 || this.#reads < MIN_READS) return configuredMs
    return Math.min(configuredMs, Math.max(MIN_LIMIT_MS, FACTOR * this.#estimateMs))
  }
}
