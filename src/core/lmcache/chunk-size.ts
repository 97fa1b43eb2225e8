/** LMCache's default, which nearly every fleet uses. */
const DEFAULT_CHUNK_TOKENS = 256

/**
 * Tokens per chunk, derived from the number of chunks that a coordinator made of prompts: `chunks = floor(tokens /
 * size)`. Every response narrows the range; within it the usual size is taken, or else the roundest number.
 */
export class ChunkSize {
  #low = 1
  #high = Infinity
  #value = DEFAULT_CHUNK_TOKENS
  #known = false

  /** In tokens. A guess until a response with chunks. */
  get tokens(): number {
    return this.#value
  }

  /** The range has both bounds. */
  get known(): boolean {
    return this.#known
  }

  /** Learns from a prompt of `tokens` tokens with `chunks` complete chunks. */
  learn(tokens: number, chunks: number): void {
    const low = Math.floor(tokens / (chunks + 1)) + 1
    const high = chunks === 0 ? Infinity : Math.floor(tokens / chunks)
    if (low > high) return
    const meets = low <= this.#high && high >= this.#low
    // A coordinator with a new size invalidates what was learned.
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
