/** LMCache's own default, and what nearly every fleet runs with. */
export const DEFAULT_CHUNK_TOKENS = 256

/**
 * How many tokens a chunk has, from how many chunks a coordinator made of prompts: `chunks = floor(tokens / size)`.
 * Every answer narrows the range; within it the usual size is taken, or else the roundest number.
 */
export class ChunkSize {
  #low = 1
  #high = Infinity
  #value = DEFAULT_CHUNK_TOKENS
  #known = false

  /** In tokens. A guess until an answer with chunks was seen. */
  get tokens(): number {
    return this.#value
  }

  /** Has an answer bounded it from both sides? */
  get known(): boolean {
    return this.#known
  }

  /** `chunks` complete chunks were made of a prompt of `tokens` tokens. */
  learn(tokens: number, chunks: number): void {
    const low = Math.floor(tokens / (chunks + 1)) + 1
    const high = chunks === 0 ? Infinity : Math.floor(tokens / chunks)
    if (low > high) return
    const meets = low <= this.#high && high >= this.#low
    // The coordinator was set up anew: what was learned of the old one is worth nothing.
    this.#low = meets ? Math.max(this.#low, low) : low
    this.#high = meets ? Math.min(this.#high, high) : high
    this.#known = this.#high < Infinity
    this.#value = this.#holds(DEFAULT_CHUNK_TOKENS) ? DEFAULT_CHUNK_TOKENS : roundest(this.#low, this.#high)
  }

  #holds(size: number): boolean {
    return size >= this.#low && size <= this.#high
  }
}

/** The number in [low, high] that the highest power of two divides; the smallest of them. */
function roundest(low: number, high: number): number {
  let step = 1
  while (Math.ceil(low / (step * 2)) * step * 2 <= Math.min(high, 2 * low)) step *= 2
  return Math.ceil(low / step) * step
}
