/** Seconds between two output tokens of one request: `baseS + perRequestS * running + perBlockS * blocks`. */
export interface DecodeLaw {
  readonly baseS: number
  readonly perRequestS: number
  readonly perBlockS: number
}

/** Cost model of vllm-router's program scheduling: 10.635 ms + 0.419 ms a request + 0.142 us a token of context. */
const BASE_S = 0.010635
const PER_REQUEST_S = 0.00041928
const PER_CONTEXT_TOKEN_S = 1.42e-7

export function tokenSeconds(law: DecodeLaw, running: number, blocks: number): number {
  return law.baseS + law.perRequestS * running + law.perBlockS * blocks
}

/** One answer moves the pace by at most this factor's share: answers differ by far more than engines do. */
const CLIP = Math.log(3)
const LEAST_GAIN = 0.03

/** Learns how much faster or slower than the model an engine decodes. One factor: single answers cannot tell the terms apart. */
export class DecodeLearner {
  #logPace = 0
  #samples = 0
  /** Read for every engine of every choice, so kept ready. */
  #law: { readonly blockTokens: number; readonly law: DecodeLaw } | null = null

  law(blockTokens: number): DecodeLaw {
    if (this.#law?.blockTokens !== blockTokens) {
      const pace = Math.exp(this.#logPace)
      const law = { baseS: BASE_S * pace, perRequestS: PER_REQUEST_S * pace, perBlockS: PER_CONTEXT_TOKEN_S * blockTokens * pace }
      this.#law = { blockTokens, law }
    }
    return this.#law!.law
  }

  /** Logarithm of the pace, for a snapshot. */
  get logPace(): number {
    return this.#logPace
  }

  restore(logPace: number): void {
    this.#logPace = logPace
    this.#law = null
  }

  /** @param seconds of decode from the first token to the last, for `tokens` tokens after the first. */
  learn(seconds: number, tokens: number, expectedTokenS: number): void {
    if (!(seconds > 0) || !(tokens >= 8) || !(expectedTokenS > 0)) return
    const error = Math.log(seconds / tokens / expectedTokenS)
    this.#samples++
    const gain = Math.max(LEAST_GAIN, 1 / (this.#samples + 1))
    this.#logPace += gain * Math.min(CLIP, Math.max(-CLIP, error))
    this.#law = null
  }
}
