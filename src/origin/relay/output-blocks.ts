import { ratioOf } from './tokens-per-event.ts'

interface StreamShape {
  readonly promptTokens: number
  readonly blockTokens: number
  /** Parallel answers in the stream (`n`, several prompts). */
  readonly sequences: number
  readonly tokensPerEvent: number
}

/**
 * Blocks that output adds to those of the prompt: the blocks of prompt + output tokens (ai-dynamo/dynamo#1731), so
 * output fills the partial block of the prompt first. Each parallel answer has its own copy of that block.
 * @testing
 */
export class OutputBlocks {
  readonly #shape: StreamShape
  /** Tokens in the prompt's partial block. */
  readonly #partial: number
  #tokensPerEvent: number
  /** Tokens by the last usage in the stream; null: none. */
  #tokens: number | null = null

  constructor(shape: StreamShape) {
    this.#shape = shape
    this.#partial = shape.promptTokens % shape.blockTokens
    this.#tokensPerEvent = shape.tokensPerEvent
  }

  /** @param tokens output tokens by the usage so far (`continuous_usage_stats`); null: none came */
  take(events: number, tokens: number | null): { readonly blocks: number; readonly nextEvents: number } {
    // A usage that does not grow is no running count: the Messages API reports one at the start.
    if (tokens !== null && this.#tokens !== null && tokens > this.#tokens)
      this.#tokensPerEvent = ratioOf(tokens, events)
    this.#tokens = tokens
    const { sequences, blockTokens } = this.#shape
    const each = Math.ceil((this.#partial + (events * this.#tokensPerEvent) / sequences) / blockTokens)
    const blocks = Math.max(0, sequences * each - (this.#partial > 0 ? 1 : 0))
    return { blocks, nextEvents: Math.max(events + 1, this.#eventsTo(each * blockTokens)) }
  }

  /** Returns the number of events at which the first block is added, or could be. */
  get firstEvents(): number {
    const { sequences, blockTokens } = this.#shape
    return sequences > 1 || this.#partial === 0 ? 1 : this.#eventsTo(blockTokens)
  }

  /** Events after which each answer has more than this many tokens in its blocks. */
  #eventsTo(tokens: number): number {
    return Math.max(1, Math.floor((this.#shape.sequences * (tokens - this.#partial)) / this.#tokensPerEvent) + 1)
  }
}
