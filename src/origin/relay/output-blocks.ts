/** KV blocks that a stream's output occupies, from the events of the stream. */
import type { EngineTarget } from '../../ports.ts'

/** Share of a new stream in the decayed sums, in events: long streams weigh more than short ones. */
const MEMORY_EVENTS = 10_000
/** Limits of a plausible ratio: engines that draft put several tokens in one event, Responses streams add events. */
const MIN_RATIO = 0.1
const MAX_RATIO = 64

/** Decayed sums of the streams whose usage was read. */
interface Sums {
  tokens: number
  events: number
}

/** Output tokens per SSE event, learned per engine and endpoint from the usage of completed streams. */
export class TokensPerEvent {
  readonly #engines = new WeakMap<EngineTarget, Map<string, Sums>>()

  /** Returns the ratio; 1 before the first completed stream. */
  of(engine: EngineTarget, path: string): number {
    const sums = this.#engines.get(engine)?.get(endpointOf(path))
    return sums === undefined ? 1 : ratioOf(sums.tokens, sums.events)
  }

  learn(engine: EngineTarget, path: string, { tokens, events }: Readonly<Sums>): void {
    if (!(tokens > 0) || !(events > 0)) return
    const endpoints = this.#engines.get(engine) ?? new Map<string, Sums>()
    this.#engines.set(engine, endpoints)
    const before = endpoints.get(endpointOf(path)) ?? { tokens: 0, events: 0 }
    const kept = Math.max(0, 1 - events / MEMORY_EVENTS)
    endpoints.set(endpointOf(path), { tokens: kept * before.tokens + tokens, events: kept * before.events + events })
  }
}

export interface StreamShape {
  readonly promptTokens: number
  readonly blockTokens: number
  /** Parallel answers in the stream (`n`, several prompts). */
  readonly sequences: number
  readonly tokensPerEvent: number
}

/**
 * Blocks that output adds to those of the prompt: the blocks of prompt + output tokens (ai-dynamo/dynamo#1731), so
 * output fills the partial block of the prompt first. Each parallel answer has its own copy of that block.
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

const endpointOf = (path: string): string => path.split('?', 1)[0]!

const ratioOf = (tokens: number, events: number): number =>
  events > 0 ? Math.min(MAX_RATIO, Math.max(MIN_RATIO, tokens / events)) : 1
