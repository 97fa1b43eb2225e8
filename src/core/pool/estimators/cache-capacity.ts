/** Factor by which the estimate shrinks per evicted prompt, and grows per confirmed one. */
const SHRINK = 0.08

const GROW = 0.004

/** Largest share by which the first observation may reduce an undeclared capacity. */
const FIRST_LIMIT = 0.5

/** Fill level above which eviction determines the content. */
const BINDING = 0.95

const MIN_BLOCKS = 16

/**
 * Estimates how many prompt blocks an engine keeps. It starts from the declared size (unlimited without one) and
 * follows the reported cache hits: output blocks, other gateways and the engine's eviction order use part of the
 * cache.
 */
export class CacheCapacity {
  /** Declared size in KV blocks; null: unknown. */
  #declared: number | null = null
  /** Estimated size in blocks of the index. */
  #learned = Infinity
  /** KV blocks per block of the index. */
  scale = 1

  /** KV blocks the engine can hold, live and cached; null: unknown. */
  get declared(): number | null {
    return this.#declared
  }

  /** Capacity in blocks of the index. */
  get blocks(): number {
    return Math.min(this.#learned, this.#max)
  }

  get #max(): number {
    return this.#declared === null ? Infinity : Math.floor(this.#declared / this.scale)
  }

  get learned(): number | null {
    return Number.isFinite(this.#learned) ? this.#learned : null
  }

  /** Declares the size in KV blocks; null or less than one: unknown. */
  declare(blocks: number | null): void {
    this.#declared = blocks !== null && blocks >= 1 ? Math.floor(blocks) : null
  }

  /** Rescales after a change of the block size by this factor. */
  rescale(factor: number): void {
    if (this.#declared !== null) this.#declared = Math.max(1, Math.floor(this.#declared * factor))
    this.#learned = Math.max(MIN_BLOCKS, Math.floor(this.#learned * factor))
  }

  restore(learned: number): void {
    this.#learned = Math.max(MIN_BLOCKS, learned)
  }

  /** Resets the estimate: the engine may have been replaced. */
  forget(): void {
    this.#learned = Infinity
  }

  /**
   * Records an eviction: under LRU, the engine keeps at most the blocks used after the evicted ones.
   * @param estimated estimated cached blocks of the engine
   */
  limit(blocks: number, estimated: number): void {
    const from = this.#from(estimated)
    const maxShrink = Number.isFinite(this.blocks) ? SHRINK : FIRST_LIMIT
    this.#learned = Math.max(MIN_BLOCKS, Math.floor(from * (1 - maxShrink)), Math.min(from, blocks))
  }

  /**
   * @param prompts number of prompts that were missing; half of one is 0.5
   * @param estimated estimated cached blocks of the engine
   */
  shrink(prompts: number, estimated: number): void {
    this.#learned = Math.max(MIN_BLOCKS, Math.floor(this.#from(estimated) * (1 - SHRINK) ** prompts))
  }

  /** Records a confirmed prediction: if the limit causes evictions, it may be too low. */
  confirm(estimated: number): void {
    if (!Number.isFinite(this.#learned) || estimated < BINDING * this.blocks) return
    this.#learned = Math.ceil(this.#learned * (1 + GROW))
    if (this.#learned >= this.#max) this.#learned = Infinity
  }

  /** Whether the estimate is unused capacity, which nothing confirms. */
  #from(estimated: number): number {
    return Math.min(this.blocks, Math.max(MIN_BLOCKS, estimated))
  }
}
