/** Content of a sequence for KV events, besides its keys. */
export interface SequenceContent {
  /** Prompt and output. */
  readonly tokens: Uint32Array
  readonly salt: string | null
  readonly adapter: string | null
}

/** Work for an engine. The output length is known in advance, because the simulated model is deterministic. */
export interface SequenceSpec {
  readonly promptTokens: number
  /** Tokens to generate, at least 1. */
  readonly outputTokens: number
  /**
   * Chained keys of the full blocks of prompt and output, two 32-bit lanes per block: [lo0, hi0, lo1, hi1, …]. Equal
   * keys mean equal content up to there, so ids of a recorded trace suffice. Later blocks are never found in the
   * cache.
   */
  readonly blocks: Uint32Array
  /** Required if the engine publishes KV events. */
  readonly content?: SequenceContent
  /** The whole prompt is computed even if cached, because its tokens are scored. */
  readonly computesAll?: boolean
  /** The prompt's KV is fetched from another engine unless cached here. */
  readonly remote?: boolean
  /** Keeps the blocks after the end until `readByRemote` or the end of the lease. */
  readonly hold?: boolean
  /** Images, audio and video to encode before the prefill. */
  readonly encodeItems?: number
}

/** `ready`: its blocks have arrived from another engine, and it waits with them. */
type SequenceState = 'waiting' | 'transfer' | 'ready' | 'running' | 'complete' | 'aborted'

/** One sequence in an engine. Times are those of the model's clock in milliseconds; only the model writes them. */
export class Sequence {
  readonly spec: SequenceSpec
  readonly arrivedAt: number
  state: SequenceState = 'waiting'
  /** Number of tokens whose KV is in the blocks. */
  computed = 0
  /** Number of generated tokens. */
  outputs = 0
  /** Leading prompt tokens found in the prefix cache when first scheduled; -1 until then. */
  cachedTokens = -1
  /** Prompt tokens fetched from another engine or an external cache. */
  fetchedTokens = 0
  preemptions = 0
  scheduledAt = -1
  firstTokenAt = -1
  lastTokenAt = -1
  endedAt = -1
  /** Inter-token times in ms: the last and the longest. */
  lastGapMs = 0
  longestGapMs = 0

  /** Tokens computed by the step in progress; 0: none. */
  chunk = 0
  readonly table: Int32Array
  tableLength = 0
  /** Blocks of `table` registered in the prefix cache. */
  namedBlocks = 0
  /** Multimodal items that still have to be encoded. */
  encodeItemsDue: number
  transferred = false
  /** Leading tokens present after the transfer. The last token of the prompt is always computed here. */
  transferEnd = 0
  /** End of the transfer (state `transfer`), or of the lease of held blocks. */
  dueAt = Infinity
  holding = false

  /** Throws a RangeError if there is nothing to compute. */
  constructor(spec: SequenceSpec, arrivedAt: number, blockTokens: number) {
    if (!(spec.promptTokens >= 1 && spec.outputTokens >= 1)) {
      throw new RangeError(
        `a sequence needs prompt and output, not ${spec.promptTokens} and ${spec.outputTokens} tokens`,
      )
    }
    this.spec = spec
    this.arrivedAt = arrivedAt
    this.encodeItemsDue = spec.encodeItems ?? 0
    this.table = new Int32Array(Math.ceil((spec.promptTokens + spec.outputTokens) / blockTokens))
  }

  /** Prompt and generated tokens. */
  get tokens(): number {
    return this.spec.promptTokens + this.outputs
  }

  get ended(): boolean {
    return this.state === 'complete' || this.state === 'aborted'
  }
}
