/** Shrink by this share for each prompt that was gone; grow by this when all was as believed. */
const SHRINK = 0.08
const GROW = 0.004
/** The first word on a capacity nobody has declared may take away this share of what is believed. */
const FIRST_LIMIT = 0.5
/** Full enough that eviction decides what is there. */
const BINDING = 0.95
const LEAST_BLOCKS = 16

/**
 * How many blocks of prompts an engine keeps. Starts from what the engine or the configuration says (unlimited when
 * neither does) and follows what the engine reports: output, other gateways and its own eviction order all take their
 * share of the room.
 */
export class CacheCapacity {
  /** KV blocks. null: nobody has said. */
  #declared: number | null = null
  /** As the index counts, like all that is believed. */
  #learned = Infinity
  /** KV blocks that a block of the index stands for. */
  scale = 1

  /** KV blocks the engine can hold, live and cached; null: unknown. */
  get declared(): number | null {
    return this.#declared
  }

  /** Blocks of the index to believe in. */
  get blocks(): number {
    return Math.min(this.#learned, this.#most)
  }

  get #most(): number {
    return this.#declared === null ? Infinity : Math.floor(this.#declared / this.scale)
  }

  get learned(): number | null {
    return Number.isFinite(this.#learned) ? this.#learned : null
  }

  /** KV blocks; null, or less than one: nobody says. */
  declare(blocks: number | null): void {
    this.#declared = blocks !== null && blocks >= 1 ? Math.floor(blocks) : null
  }

  /** Blocks have another size: so many times as many hold the same. */
  rescale(factor: number): void {
    if (this.#declared !== null) this.#declared = Math.max(1, Math.floor(this.#declared * factor))
    this.#learned = Math.max(LEAST_BLOCKS, Math.floor(this.#learned * factor))
  }

  restore(learned: number): void {
    this.#learned = Math.max(LEAST_BLOCKS, learned)
  }

  /** It may be another engine by now. */
  forget(): void {
    this.#learned = Infinity
  }

  /**
   * What it no longer has was last used before all of these blocks were: least recently used out first, it keeps no more
   * than them. @param believed blocks believed cached in all.
   */
  limit(blocks: number, believed: number): void {
    const from = this.#from(believed)
    const most = Number.isFinite(this.blocks) ? SHRINK : FIRST_LIMIT
    this.#learned = Math.max(LEAST_BLOCKS, Math.floor(from * (1 - most)), Math.min(from, blocks))
  }

  /** @param prompts that were gone though believed there; half of one is 0.5. @param believed blocks believed cached in all. */
  shrink(prompts: number, believed: number): void {
    this.#learned = Math.max(LEAST_BLOCKS, Math.floor(this.#from(believed) * (1 - SHRINK) ** prompts))
  }

  /** All was as believed: if our limit is what evicts, it may be too tight. */
  confirm(believed: number): void {
    if (!Number.isFinite(this.#learned) || believed < BINDING * this.blocks) return
    this.#learned = Math.ceil(this.#learned * (1 + GROW))
    if (this.#learned >= this.#most) this.#learned = Infinity
  }

  /** More than it is believed to hold nobody has claimed. */
  #from(believed: number): number {
    return Math.min(this.blocks, Math.max(LEAST_BLOCKS, believed))
  }
}
