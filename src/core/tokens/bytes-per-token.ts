/** Shorter prompts are mostly template, so nothing is learned from them. */
const MIN_TOKENS = 48

/** Plausible range over a whole prompt. */
const MIN_RATIO = 0.8

const MAX_RATIO = 16

/**
 * Largest share by which one count moves the mean, so that a single unusual prompt (base64, a repeated word) has
 * little effect.
 */
const MAX_STEP = 0.05

/** Bytes of prompt per token, learned from the engines' counts. */
export class BytesPerToken {
  #mean: number
  #counts = 0

  /** @param prior value before the first count */
  constructor(prior: number) {
    this.#mean = prior
  }

  get value(): number {
    return this.#mean
  }

  /** Number of counts. */
  get counts(): number {
    return this.#counts
  }

  /** Learns from a prompt of `bytes` that the engine counted as `tokens`. */
  learn(bytes: number, tokens: number): void {
    if (!(tokens >= MIN_TOKENS) || !(bytes > 0)) return
    const ratio = bytes / tokens
    if (ratio < MIN_RATIO || ratio > MAX_RATIO) return
    this.#counts++
    // First a running mean, then an exponential one, because the traffic of a pool changes over days.
    const share = Math.max(1 / (this.#counts + 1), 1 / 64)
    const step = share * (ratio - this.#mean)
    const maxStep = MAX_STEP * this.#mean
    this.#mean += Math.max(-maxStep, Math.min(maxStep, step))
  }
}
