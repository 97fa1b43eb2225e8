/** Mean work of the requests that engines of one role get. */
export interface RequestMix {
  /** Prefill of a request beyond its cached tokens, seconds, and its mean square. */
  readonly prefillS: number
  readonly prefillS2: number
  /** Time for which a first token may wait within the objective, seconds. Infinity: no limit. */
  readonly slackS: number
  /** Output tokens of all sequences of a request. 0: other engines decode it. */
  readonly outputTokens: number
  /** KV blocks of a sequence in the middle of its output. */
  readonly blocksPerSequence: number
}

/** Part of a request that engines of one role do. */
export interface RoleWork {
  readonly prefillS: number
  readonly slackS: number
  /** Prompt tokens that a decode holds. 0: it decodes elsewhere. */
  readonly promptTokens: number
  /** Parallel responses. 0: it decodes elsewhere. */
  readonly sequences: number
}

/** Sums of the work of requests. */
export class WorkSums {
  requests = 0
  #prefills = 0
  #prefillS = 0
  #prefillS2 = 0
  #slackS = 0
  #promptTokens = 0
  #sequences = 0

  add({ prefillS, slackS, promptTokens, sequences }: RoleWork): void {
    this.requests += 1
    this.#promptTokens += promptTokens
    this.#sequences += sequences
    if (prefillS === 0) return
    this.#prefills += 1
    this.#prefillS += prefillS
    this.#prefillS2 += prefillS * prefillS
    this.#slackS += slackS
  }

  addAll(other: WorkSums): void {
    this.requests += other.requests
    this.#prefills += other.#prefills
    this.#prefillS += other.#prefillS
    this.#prefillS2 += other.#prefillS2
    this.#slackS += other.#slackS
    this.#promptTokens += other.#promptTokens
    this.#sequences += other.#sequences
  }

  /**
   * Means; call it only with requests.
   * @param outputTokens usual output of a sequence
   */
  mix(outputTokens: number, blockTokens: number): RequestMix {
    const blocks = (this.#promptTokens + (this.#sequences * outputTokens) / 2) / blockTokens
    return {
      prefillS: this.#prefillS / this.requests,
      prefillS2: this.#prefillS2 / this.requests,
      slackS: this.#prefills === 0 ? Infinity : this.#slackS / this.#prefills,
      outputTokens: (outputTokens * this.#sequences) / this.requests,
      blocksPerSequence: this.#sequences === 0 ? 0 : blocks / this.#sequences,
    }
  }
}
