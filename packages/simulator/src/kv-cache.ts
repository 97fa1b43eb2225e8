import type { BlockPool } from './block-pool.ts'
import type { CacheJournal } from './cache-journal.ts'
import type { Sequence } from './sequence.ts'

/** Block tables of sequences over one pool: vLLM V1's KVCacheManager. */
export class KvCache {
  readonly #pool: BlockPool
  readonly #blockTokens: number
  readonly #prefixCaching: boolean
  readonly #journal: CacheJournal | null

  constructor(pool: BlockPool, blockTokens: number, prefixCaching: boolean, journal: CacheJournal | null = null) {
    this.#pool = pool
    this.#blockTokens = blockTokens
    this.#prefixCaching = prefixCaching
    this.#journal = journal
  }

  /**
   * Assigns the cached blocks to a sequence. Returns false, without effect, unless the whole sequence would fit
   * (vLLM's `scheduler_reserve_full_isl`). Otherwise a long prompt would be scheduled for its first chunk only.
   */
  open(sequence: Sequence): boolean {
    const pool = this.#pool
    const hits = this.#match(sequence)
    let fromFree = 0
    for (let at = 0; at < hits; at += 1) if (pool.references(sequence.table[at]!) === 0) fromFree += 1
    const needed = Math.ceil(sequence.tokens / this.#blockTokens) - hits
    if (needed + fromFree > pool.freeCount) return false
    for (let at = 0; at < hits; at += 1) pool.share(sequence.table[at]!)
    sequence.tableLength = hits
    sequence.namedBlocks = hits
    sequence.computed = hits * this.#blockTokens
    return true
  }

  /** Allocates blocks for the KV of `tokens` tokens. Returns false, without effect, if there are too few. */
  grow(sequence: Sequence, tokens: number): boolean {
    // Fast path of most decode steps, without a division.
    if (tokens <= sequence.tableLength * this.#blockTokens) return true
    const wanted = Math.ceil(tokens / this.#blockTokens)
    if (wanted - sequence.tableLength > this.#pool.freeCount) return false
    for (let at = sequence.tableLength; at < wanted; at += 1) sequence.table[at] = this.#pool.take()
    sequence.tableLength = wanted
    return true
  }

  /**
   * Registers the full blocks among the first `tokens` tokens in the prefix cache. Another sequence in the same step
   * may have registered them already.
   */
  name(sequence: Sequence, tokens: number): void {
    if (!this.#prefixCaching || tokens < (sequence.namedBlocks + 1) * this.#blockTokens) return
    const { blocks } = sequence.spec
    const full = Math.min(Math.floor(tokens / this.#blockTokens), blocks.length >> 1)
    for (let at = sequence.namedBlocks; at < full; at += 1) {
      this.#pool.name(sequence.table[at]!, blocks[at * 2]!, blocks[at * 2 + 1]!)
    }
    if (full <= sequence.namedBlocks) return
    const { content } = sequence.spec
    if (content !== undefined)
      this.#journal?.add({ kind: 'stored', content, blocks, from: sequence.namedBlocks, to: full })
    sequence.namedBlocks = full
  }

  /** Releases all blocks, tail first, so that a prefix is evicted after its continuations. */
  close(sequence: Sequence): void {
    for (let at = sequence.tableLength - 1; at >= 0; at -= 1) this.#pool.release(sequence.table[at]!)
    sequence.tableLength = 0
    sequence.namedBlocks = 0
  }

  /**
   * Finds the leading cached blocks and stores them in `table`. The last token is always computed, so a full hit loses
   * one block.
   */
  #match(sequence: Sequence): number {
    const { blocks, computesAll } = sequence.spec
    if (!this.#prefixCaching || computesAll === true) return 0
    const max = Math.min(blocks.length >> 1, Math.floor((sequence.tokens - 1) / this.#blockTokens))
    let hits = 0
    while (hits < max) {
      const block = this.#pool.find(blocks[hits * 2]!, blocks[hits * 2 + 1]!)
      if (block < 0) break
      sequence.table[hits] = block
      hits += 1
    }
    return hits
  }
}
