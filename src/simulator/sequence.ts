/** What KV events tell of a sequence besides its keys. */
export interface SequenceContent {
  /** Prompt and output. */
  readonly tokens: Uint32Array
  readonly salt: string | null
  readonly adapter: string | null
}

/** What an engine is asked to compute. Output length is known in advance: the simulated model is deterministic. */
export interface SequenceSpec {
  readonly promptTokens: number
  /** Tokens to generate, at least 1. */
  readonly outputTokens: number
  /**
   * Chained keys of the full blocks of prompt and output, two 32-bit lanes a block: [lo0, hi0, lo1, hi1, …].
   * Equal keys mean equal content up to there, so ids of a recorded trace will do. Blocks beyond it are never found again.
   */
  readonly blocks: Uint32Array
  /** Needed where the engine publishes KV events. */
  readonly content?: SequenceContent
  /** All of the prompt is computed, whatever is cached: its tokens are to be scored. */
  readonly computesAll?: boolean
  /** The prompt's KV is fetched from another engine, where it is not cached here. */
  readonly remote?: boolean
  /** After the end, keep the blocks until `readByRemote` or the lease ends. */
  readonly hold?: boolean
  /** Images, sounds, videos to encode before the prefill. */
  readonly encodeItems?: number
}

/** `ready`: its blocks have come from another engine, and it waits with them in hand. */
export type SequenceState = 'waiting' | 'transfer' | 'ready' | 'running' | 'complete' | 'aborted'

/** One sequence's life in an engine. Times are those of the model's clock, milliseconds; written by the model alone. */
export class Sequence {
  readonly spec: SequenceSpec
  readonly arrivedAt: number
  state: SequenceState = 'waiting'
  /** Tokens whose KV is in the blocks. */
  computed = 0
  /** Tokens generated. */
  outputs = 0
  /** Leading prompt tokens found in the prefix cache when first scheduled; -1 until then. */
  cachedTokens = -1
  /** Prompt tokens that came from another engine or from outside the engines. */
  fetchedTokens = 0
  preemptions = 0
  scheduledAt = -1
  firstTokenAt = -1
  lastTokenAt = -1
  endedAt = -1
  /** Waits between two tokens: the last one and the longest, ms. */
  lastGapMs = 0
  longestGapMs = 0

  /** Tokens computed by the step in progress; 0: none. */
  chunk = 0
  readonly table: Int32Array
  tableLength = 0
  /** Blocks of `table` that carry their key. */
  namedBlocks = 0
  /** Items whose encoding no step has paid for yet. */
  encodeItemsDue: number
  transferred = false
  /** Leading tokens that are there once the transfer ends; the last one of the prompt is computed here in any case. */
  transferEnd = 0
  /** When the transfer ends (state `transfer`), or when the lease of held blocks ends. */
  dueAt = Infinity
  holding = false

  /** Throws a RangeError when there is nothing to compute. */
  constructor(spec: SequenceSpec, arrivedAt: number, blockTokens: number) {
    if (!(spec.promptTokens >= 1 && spec.outputTokens >= 1)) {
      throw new RangeError(
        `a sequence needs prompt and output, got ${spec.promptTokens} and ${spec.outputTokens} tokens`,
      )
    }
    this.spec = spec
    this.arrivedAt = arrivedAt
    this.encodeItemsDue = spec.encodeItems ?? 0
    this.table = new Int32Array(Math.ceil((spec.promptTokens + spec.outputTokens) / blockTokens))
  }

  /** Prompt and what was generated so far. */
  get tokens(): number {
    return this.spec.promptTokens + this.outputs
  }

  get ended(): boolean {
    return this.state === 'complete' || this.state === 'aborted'
  }
}
