import type { Pin, PrefixIndex } from './prefix-index.ts'

/** What a request's prompt takes on an engine. */
export interface PromptShape {
  /** Chained hashes of its full blocks, two lanes each. */
  readonly blocks: Uint32Array
  readonly blockCount: number
  /** Does a part of a block remain behind the full ones? It takes a block of its own, shared with nobody. */
  readonly partial: boolean
}

export function shapeOf(blocks: Uint32Array, promptTokens: number, blockTokens: number): PromptShape {
  const blockCount = blocks.length >> 1
  return { blocks, blockCount, partial: promptTokens > blockCount * blockTokens }
}

/** One request on one engine. Made by `add`, ended by `free`; the fields are the ledger's own. */
export interface LiveRequest {
  readonly engine: number
  /** null: nothing of it is shared. */
  readonly pin: Pin | null
  /** Blocks nobody else can share: the partial one, the output, and the prompt's where caches are off. */
  own: number
  outputBlocks: number
  /** Discount for output nearly done, in 1/1024 blocks. */
  discount: number
}

/** Discounts are whole numbers of these, so that what was subtracted can be added back exactly. */
const DISCOUNT_UNIT = 1024

interface EngineLedger {
  own: number
  discount: number
}

/**
 * Blocks that live requests hold on each engine (ai-dynamo/dynamo#1731): a block two requests share counts once, and
 * is free when the last of them ends. What a newcomer would add is what its longest live prefix leaves (the prefix
 * rule of later Dynamo; with chained hashes it equals the pull request's set rule).
 */
export class ActiveBlocks {
  readonly #index: PrefixIndex
  readonly #engines: EngineLedger[] = []

  /** The index keeps the shared blocks; its `match` must have been called for `potential` to mean anything. */
  constructor(index: PrefixIndex) {
    this.#index = index
  }

  /** @param reuse does the engine share equal blocks at all? Without prefix caching and for decode legs it does not. */
  add(engine: number, prompt: PromptShape, reuse: boolean): LiveRequest {
    const pin = reuse ? this.#index.pin(engine, prompt.blocks, prompt.blockCount) : null
    const own = prompt.blockCount - (pin?.blocks ?? 0) + (prompt.partial ? 1 : 0)
    this.#of(engine).own += own
    return { engine, pin, own, outputBlocks: 0, discount: 0 }
  }

  /** Blocks the engine would hold beyond today's, for the prompt last matched. */
  newBlocks(engine: number, prompt: PromptShape, reuse: boolean): number {
    return prompt.blockCount - (reuse ? this.#index.live[engine]! : 0) + (prompt.partial ? 1 : 0)
  }

  /** Output so far, in blocks begun: a total that only grows. */
  output(request: LiveRequest, outputBlocks: number): void {
    const more = Math.max(0, outputBlocks - request.outputBlocks)
    request.outputBlocks += more
    request.own += more
    this.#of(request.engine).own += more
  }

  /**
   * Blocks only this request holds will soon be free: they count less the nearer it is to its expected end.
   * @param done share of the expected output that has come, 0..1.
   * The discount is as of this call: a request that joins the prefix later counts in full at the next one.
   */
  decay(request: LiveRequest, done: number): void {
    const alone = request.own + (request.pin === null ? 0 : this.#index.exclusiveBlocks(request.pin))
    const discount = Math.round(alone * DISCOUNT_UNIT * Math.min(1, Math.max(0, done)))
    this.#of(request.engine).discount += discount - request.discount
    request.discount = discount
  }

  /** Ends a request. `keep`: see `PrefixIndex.release`. */
  free(request: LiveRequest, keep?: number): void {
    const ledger = this.#of(request.engine)
    ledger.own -= request.own
    ledger.discount -= request.discount
    request.own = 0
    request.discount = 0
    if (request.pin !== null) this.#index.release(request.pin, keep)
  }

  /** Blocks live requests hold on the engine; a fraction only where discounts apply. */
  active(engine: number): number {
    const ledger = this.#of(engine)
    return this.#index.liveBlocks(engine) + ledger.own - ledger.discount / DISCOUNT_UNIT
  }

  #of(engine: number): EngineLedger {
    return (this.#engines[engine] ??= { own: 0, discount: 0 })
  }
}
