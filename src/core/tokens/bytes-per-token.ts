/** How many bytes of prompt make one token, learned from what engines report. */

/** Prompts shorter than this are mostly template and teach nothing. */
const MIN_TOKENS = 48
/** No tokenizer in use is outside these, over a whole prompt. */
const LEAST = 0.8
const MOST = 16
/** One report moves the mean by at most this share of itself, so a single odd prompt (base64, a repeated word) cannot. */
const MAX_STEP = 0.05

export class BytesPerToken {
  #mean: number
  #seen = 0

  /** `prior`: what to believe before the first report. */
  constructor(prior: number) {
    this.#mean = prior
  }

  get value(): number {
    return this.#mean
  }

  /** Reports taken in. */
  get seen(): number {
    return this.#seen
  }

  /** Takes in a prompt of `bytes` that the engine counted as `tokens`. */
  learn(bytes: number, tokens: number): void {
    if (!(tokens >= MIN_TOKENS) || !(bytes > 0)) return
    const ratio = bytes / tokens
    if (ratio < LEAST || ratio > MOST) return
    this.#seen++
    // A running mean at first, then one that forgets: the traffic of a pool changes over days.
    const share = Math.max(1 / (this.#seen + 1), 1 / 64)
    const step = share * (ratio - this.#mean)
    const most = MAX_STEP * this.#mean
    this.#mean += Math.max(-most, Math.min(most, step))
  }
}
