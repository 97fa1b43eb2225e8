import { absorbWords, chainSeed, endBlock, type ChainState } from '../tokens/block-hash.ts'
import type { BlocksStored, KvEvent } from './event-batch.ts'
import { type BlockSink, EngineBlock, EngineBlocks } from './engine-blocks.ts'

/** Block naming of a pool. */
export interface PoolBlocks {
  /** Base model of the pool. */
  readonly model: string
  readonly blockTokens: number
}

/** Medium of blocks that routing counts as cached; older engines do not send it. */
const DEVICE = 'GPU'

/**
 * Kinds of attention to all earlier tokens: such a block stays until it is evicted, from the end of the prompt first.
 */
const DENSE: readonly (string | null)[] = ['full_attention', 'mla_attention', 'sink_full_attention']

/**
 * Translates an engine's block hashes, which only the engine can compute, into the pool's, with the token ids in its
 * events. The engine's hash of a parent identifies the chain to continue; chains start with the seed of the prompt:
 * model, adapter and salt. A block of the pool can span several of the engine's.
 */
export class BlockTranslator {
  readonly #pool: PoolBlocks
  readonly #engineBlocks: EngineBlocks
  readonly #seeds = new Map<string, ChainState>()
  #engineBlockTokens: number | null = null
  #group: number | null = null
  #isDense = false
  /** Blocks without a name: their parent is unknown, or their hash has more inputs than tokens (images, embeddings). */
  unnamed = 0

  constructor(pool: PoolBlocks, sink: BlockSink) {
    this.#pool = pool
    this.#engineBlocks = new EngineBlocks(sink)
  }

  /** Tokens in a block of the engine; null: no block was stored yet. */
  get engineBlockTokens(): number | null {
    return this.#engineBlockTokens
  }

  /** false: the pool's block size is no multiple of the engine's, so blocks cannot be named. */
  get fits(): boolean {
    return this.#engineBlockTokens === null || this.#pool.blockTokens % this.#engineBlockTokens === 0
  }

  apply(event: KvEvent): void {
    if (event.kind === 'cleared') this.clear()
    else if (event.medium !== null && event.medium !== DEVICE) return
    else if (event.kind === 'stored') this.#store(event)
    else if (event.group === (this.#group ?? event.group))
      for (const hash of event.hashes) this.#engineBlocks.remove(hash)
  }

  clear(): void {
    this.#engineBlocks.clear()
  }

  /** The engine has restarted, perhaps with other settings. */
  restart(): void {
    this.clear()
    this.#engineBlockTokens = null
    this.#group = null
  }

  /**
   * Selects the KV cache group to follow. With several kinds of attention, the first dense group represents all: no
   * engine finds a longer prefix than there, and other groups lose blocks that have left their window. Until a dense
   * group appears, the first group of any kind is used.
   */
  #follows({ group, attention }: BlocksStored): boolean {
    const isDense = DENSE.includes(attention)
    if (this.#group !== null && isDense && !this.#isDense && group !== this.#group) this.restart()
    if (this.#group === null) {
      this.#group = group
      this.#isDense = isDense
    }
    return group === this.#group
  }

  #store(event: BlocksStored): void {
    if (event.blockTokens < 1 || !this.#follows(event)) return
    this.#learnSize(event.blockTokens)
    const start = event.parent === null ? this.#seedOf(event) : this.#engineBlocks.get(event.parent)
    const fits =
      this.fits &&
      event.blockTokens === this.#engineBlockTokens &&
      event.tokens.length === event.hashes.length * event.blockTokens
    if (start === null || start === undefined || !fits) {
      this.unnamed += event.hashes.length
      return
    }
    const state: ChainState = { lo: start.lo, hi: start.hi }
    let before = start instanceof EngineBlock ? start : null
    for (const [index, hash] of event.hashes.entries()) {
      if (!isPlain(event, index)) {
        this.unnamed += event.hashes.length - index
        return
      }
      absorbWords(state, event.tokens, index * event.blockTokens, (index + 1) * event.blockTokens)
      let open: number = (before?.open ?? 0) + 1
      if (open * event.blockTokens === this.#pool.blockTokens) {
        endBlock(state, this.#pool.blockTokens)
        open = 0
      }
      before = this.#engineBlocks.add(hash, state, { open, before })
    }
  }

  /**
   * Since vLLM 0.32, the filled part of a prompt's last block can be reported as a smaller block before any whole one.
   */
  #learnSize(blockTokens: number): void {
    const before = this.#engineBlockTokens
    if (before !== null && blockTokens <= before) return
    if (before !== null) this.clear()
    this.#engineBlockTokens = blockTokens
  }

  /** null: the first block has more hash inputs than its tokens, or an adapter without a name. */
  #seedOf(event: BlocksStored): ChainState | null {
    if (event.adapter.kind === 'unnamed') return null
    const adapter = event.adapter.kind === 'named' ? event.adapter.name : null
    const salt = saltOf(event)
    if (salt === undefined) return null
    const key = JSON.stringify([adapter, salt])
    let seed = this.#seeds.get(key)
    if (seed === undefined) {
      const { model, blockTokens } = this.#pool
      seed = chainSeed({ model, adapter, salts: salt === null ? [] : [salt], tenant: null, unit: 'ids', blockTokens })
      if (this.#seeds.size >= MAX_SEEDS) this.#seeds.clear()
      this.#seeds.set(key, seed)
    }
    return seed
  }
}

/** Salts can be one per tenant, so this is a bounded cache. */
const MAX_SEEDS = 10_000

/** Extra keys besides the adapter that are texts. */
function keysOf({ adapter, extraKeys }: BlocksStored, index: number): unknown[] {
  const keys: unknown[] = (extraKeys[index] ?? []).map(untagged)
  if (adapter.kind !== 'named') return keys
  const own = keys.indexOf(adapter.name)
  return keys.filter((_, at) => at !== own)
}

/** vLLM 0.32 reports keys without tags and hashes them with tags; this accepts both. */
function untagged(key: unknown): unknown {
  if (Array.isArray(key) && key[0] === 'cache_salt') return key[1]
  if (Array.isArray(key) && key[0] === 'lora') return key[1]
  return key
}

/** The `cache_salt` of a first block; null: none; undefined: there are other keys. */
function saltOf(event: BlocksStored): string | null | undefined {
  const keys = keysOf(event, 0)
  if (event.salt !== null) return keys.every((key) => key === event.salt) ? event.salt : undefined
  const [salt, ...more] = keys
  if (salt === undefined) return null
  return typeof salt === 'string' && more.length === 0 ? salt : undefined
}

/** Whether the block's only hash inputs are its tokens. The salt of a first block is already in the chain. */
function isPlain(event: BlocksStored, index: number): boolean {
  return (event.parent === null && index === 0) || keysOf(event, index).length === 0
}
