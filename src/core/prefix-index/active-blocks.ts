import type { Pin, PrefixIndex } from './prefix-index.ts'

/** Blocks that a request's prompt occupies on an engine. */
export interface PromptShape {
  /** Chained hashes of its full blocks, two lanes each. */
  readonly blocks: Uint32Array
  readonly blockCount: number
  /** Whether a partial block follows the full ones. It needs a block of its own, which is never shared. */
  readonly partial: boolean
}

export function shapeOf(blocks: Uint32Array, promptTokens: number, blockTokens: number): PromptShape {
  const blockCount = blocks.length >> 1
  return { blocks, blockCount, partial: promptTokens > blockCount * blockTokens }
}

/** Live request on one engine. Made by `add`, ended by `free`. Prompt blocks are blocks of the index. */
export interface LiveRequest {
  readonly engine: number
  /** Pin of its shared blocks; null: none. */
  pin: Pin | null
  /** Unshared blocks of the prompt: the partial one, and all if the engine does not cache prefixes. */
  own: number
  outputBlocks: number
  /** Discount for output nearly done, in 1/1024 blocks. */
  discount: number
}

/** Unit of discounts: whole numbers, so that adding and subtracting is exact. */
const DISCOUNT_UNIT = 1024

interface EngineBlockCounts {
  own: number
  output: number
  discount: number
}

/** Prompt length in blocks that moves the scale halfway. */
const SCALE_BLOCKS = 256

/**
 * Blocks that live requests hold on each engine (ai-dynamo/dynamo#1731): a block two requests share counts once, and
 * is free when the last of them ends. What a newcomer would add is what its longest live prefix leaves (the prefix
 * rule of later Dynamo; with chained hashes it equals the pull request's set rule).
 */
export class ActiveBlocks {
  readonly #index: PrefixIndex
  readonly #counts: EngineBlockCounts[] = []
  /**
   * KV blocks per block of the index, a mean. 1 for prompts of token ids; byte chunks hold a varying number of tokens.
   */
  scale = 1

  /** @param index holds the shared blocks; call its `match` before `newBlocks` */
  constructor(index: PrefixIndex) {
    this.#index = index
  }

  /** Records a prompt whose blocks stand for `scale` KV blocks each. */
  learnScale(scale: number, blocks: number): void {
    this.scale += ((scale - this.scale) * blocks) / (blocks + SCALE_BLOCKS)
  }

  /**
   * @param reuse whether the engine shares equal blocks: false without prefix caching
   * @param sharedBlocks leading blocks it shares; a decode leg shares only the cached ones until the others arrived
   */
  add(engine: number, prompt: PromptShape, reuse: boolean, sharedBlocks = prompt.blockCount): LiveRequest {
    const pin = reuse ? this.#index.pin(engine, prompt.blocks, sharedBlocks) : null
    const own = prompt.blockCount - (pin?.blocks ?? 0) + (prompt.partial ? 1 : 0)
    this.#countsOf(engine).own += own
    return { engine, pin, own, outputBlocks: 0, discount: 0 }
  }

  /** Shares all blocks of a prompt whose KV was transferred to the engine: engines cache blocks on their arrival. */
  received(request: LiveRequest, prompt: PromptShape): void {
    if (request.pin === null) return
    const before = request.pin
    request.pin = this.#index.pin(request.engine, prompt.blocks, prompt.blockCount)
    this.#index.release(before)
    const own = prompt.blockCount - request.pin.blocks + (prompt.partial ? 1 : 0)
    this.#countsOf(request.engine).own += own - request.own
    request.own = own
  }

  /** Returns the additional KV blocks for the prompt last matched. */
  newBlocks(engine: number, prompt: PromptShape, reuse: boolean): number {
    return this.scale * (prompt.blockCount - (reuse ? this.#index.live[engine]! : 0) + (prompt.partial ? 1 : 0))
  }

  /** Records the output so far, in started blocks: a total that only grows. */
  output(request: LiveRequest, outputBlocks: number): void {
    const more = Math.max(0, outputBlocks - request.outputBlocks)
    request.outputBlocks += more
    this.#countsOf(request.engine).output += more
  }

  /**
   * Blocks only this request holds will soon be free: they count less the nearer it is to its expected end.
   * @param done share of the expected output that has come, 0..1.
   * The discount is as of this call: a request that joins the prefix later counts in full at the next one.
   */
  decay(request: LiveRequest, done: number): void {
    const alone =
      this.scale * (request.own + (request.pin === null ? 0 : this.#index.exclusiveBlocks(request.pin))) +
      request.outputBlocks
    const discount = Math.round(alone * DISCOUNT_UNIT * Math.min(1, Math.max(0, done)))
    this.#countsOf(request.engine).discount += discount - request.discount
    request.discount = discount
  }

  /** Ends a request. `keep`: see `PrefixIndex.release`. */
  free(request: LiveRequest, keep?: number): void {
    const counts = this.#countsOf(request.engine)
    counts.own -= request.own
    counts.output -= request.outputBlocks
    counts.discount -= request.discount
    request.own = 0
    request.outputBlocks = 0
    request.discount = 0
    if (request.pin !== null) this.#index.release(request.pin, keep)
  }

  /** KV blocks of live requests on the engine; fractional only with discounts or a scale. */
  active(engine: number): number {
    const counts = this.#countsOf(engine)
    return Math.max(
      0,
      this.scale * (this.#index.liveBlocks(engine) + counts.own) + counts.output - counts.discount / DISCOUNT_UNIT,
    )
  }

  #countsOf(engine: number): EngineBlockCounts {
    return (this.#counts[engine] ??= { own: 0, output: 0, discount: 0 })
  }
}
