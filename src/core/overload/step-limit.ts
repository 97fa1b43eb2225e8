/** Step of one sample, and the share of samples that shall meet the target. */
const GAIN = 0.03

const QUANTILE = 0.8

/** Lower bound as a share of the target. */
const MIN_SHARE = 0.3

/** Half-life of the return to the target while the limit refuses nothing, ms. */
const RELAX_MS = 15_000

/** Time after a refusal during which the limit counts as reached, ms. */
const REACHED_MS = 1_000

/**
 * Limit of the time between tokens of one engine as admission computes it (`objective.ts`), ms. It is the target, and
 * less while responses miss the target: what admission computes may be too low. Each sample above the target lowers the
 * limit, each below raises it by as much less as the quantile demands (stochastic quantile estimation).
 */
export class StepLimit {
  #targetMs: number | null = null
  #limitMs = Infinity
  #refusedAt = -Infinity
  #relaxedAt = 0

  /** @param targetMs time between two tokens. null: no limit */
  configure(targetMs: number | null): void {
    if (targetMs === this.#targetMs) return
    this.#targetMs = targetMs
    this.#limitMs = targetMs ?? Infinity
  }

  /** Current limit. Infinity: none. */
  limitMs(now: number): number {
    if (this.#targetMs === null) return Infinity
    const from = Math.max(this.#relaxedAt, this.#refusedAt + REACHED_MS)
    if (now > from) {
      const left = 0.5 ** ((now - from) / RELAX_MS)
      this.#limitMs = this.#targetMs - (this.#targetMs - this.#limitMs) * left
      this.#relaxedAt = now
    }
    return this.#limitMs
  }

  /** Records that the limit refused or moved a request. */
  refused(now: number): void {
    this.limitMs(now)
    this.#refusedAt = now
  }

  /** @param itlMs mean time between the tokens of a response */
  learn(itlMs: number, now: number): void {
    if (this.#targetMs === null || !(itlMs > 0)) return
    const limit = this.limitMs(now)
    const isReached = now - this.#refusedAt <= REACHED_MS
    const factor = itlMs > this.#targetMs ? 1 - GAIN * QUANTILE : isReached ? 1 + GAIN * (1 - QUANTILE) : 1
    this.#limitMs = Math.min(this.#targetMs, Math.max(MIN_SHARE * this.#targetMs, limit * factor))
  }
}
