/** Factor by which the estimate shrinks per evicted prompt, and grows per confirmed one. */
const SHRINK = 0.08
const GROW = 0.004
/** Largest share by which the first observation may reduce an undeclared capacity. */
const FIRST_LIMIT = 0.5
/** Fill level above which eviction determines the content. */
const BINDING = 0.95
const LEAST_BLOCKS = 16

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
    return Math.min(this.#learned, this.#most)
  }

  get #most(): number {
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
    this.#learned = Math.max(LEAST_BLOCKS, Math.floor(this.#learned * factor))
  }

  restore(learned: number): void {
    this.#learned = Math.max(LEAST_BLOCKS, learned)
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
    const most = Number.isFinite(this.blocks) ? SHRINK : FIRST_LIMIT
    this.#learned = Math.max(LEAST_BLOCKS, Math.floor(from * (1 - most)), Math.min(from, blocks))
  }

  /**
   * @param prompts number of prompts that were missing; half of one is 0.5
   * @param estimated estimated cached blocks of the engine
   */
  shrink(prompts: number, estimated: number): void {
    this.#learned = Math.max(LEAST_BLOCKS, Math.floor(this.#from(estimated) * (1 - SHRINK) ** prompts))
  }

  /** Records a confirmed prediction: if the limit causes evictions, it may be too low. */
  confirm(estimated: number): void {
    if (!Number.isFinite(this.#learned) || estimated < BINDING * this.blocks) return
    this.#learned = Math.ceil(this.#learned * (1 + GROW))
    if (this.#learned >= this.#most) this.#learned = Infinity
  }

  /** Whether the estimate is unused capacity, which nothing confirms. */
  #from(estimated: number): number {
    return Math.min(this.blocks, Math.max(LEAST_BLOCKS, estimated))
  }
}

/** Cached tokens of a request: as predicted at booking and as reported by the engine. */
export interface CacheOutcome {
  readonly predictedTokens: number
  readonly actualTokens: number
  /** Part of the prediction that a live request had not yet prefilled. Its absence proves nothing. */
  readonly uncertainTokens: number
  /** Tokens of one block, which some engines recompute although it is cached. */
  readonly blockTokens: number
  /** Requests that ended on any engine since the predicted blocks were last used. */
  readonly idleEnds: number
  /** Whether the blocks were last used before the engine was unavailable. Ignored before `revived`. */
  readonly beforeAway: boolean
}

export type CacheFinding =
  /** Prediction confirmed, or too small to judge. */
  | { readonly kind: 'fine' }
  /** Blocks are missing: the engine evicts earlier than estimated. `prompts` is their amount (0.5: half a prompt). */
  | { readonly kind: 'evicted'; readonly prompts: number }
  /** All predicted blocks are missing, and had been unused for longer than usual: evicted at that age. */
  | { readonly kind: 'outlived' }
  /**
   * All predicted blocks are missing repeatedly, after earlier hits: restart. `away`: only blocks from before the
   * engine was unavailable are lost.
   */
  | { readonly kind: 'restarted'; readonly away: boolean }

const FINE: CacheFinding = { kind: 'fine' }
const OUTLIVED: CacheFinding = { kind: 'outlived' }

export interface CacheReport {
  /** Whether the engine has ever reported cached tokens. */
  readonly reports: boolean
  /** Decayed means over requests with a predicted or reported hit, in tokens. */
  readonly predictedTokens: number
  readonly actualTokens: number
  readonly errorTokens: number
  /** Hits are predicted but never reported. */
  readonly silentMiss: boolean
  readonly restarts: number
}

/** Predictions below this are not judged: engines use other block sizes, lookups have chunks of 256 tokens. */
const LEAST_TOKENS = 256
/** Reported share of the prediction below which it is a miss. */
const HIT_SHARE = 0.1
/** Reported share of the prediction above which it is a hit. */
const GOOD_SHARE = 0.9
/** Consecutive misses of recently used blocks, on an engine with earlier hits, that mean a restart. */
const RESTART_AFTER = 3
/** Consecutive misses without any hit that raise the alarm. */
const SILENT_AFTER = 8
/** Consecutive responses without the last cached block. Engines with speculative decoding (EAGLE, MTP) recompute it. */
const REDONE_AFTER = 8
const DECAY = 0.05

export const SILENT_MISS_CAUSES = [
  'the chat template the gateway renders differs from the engine’s',
  'the engine’s prefix caching is off (--no-enable-prefix-caching)',
  'a cache_salt is added between the gateway and the engine',
  'the engine serves another model or adapter than the pool says',
  'block_tokens is smaller than the engine’s block size, or the engine’s cache is too small to keep anything',
] as const

/** Compares one engine's reported cached tokens with the predictions. */
export class CacheFeedback {
  #reports = false
  #predicted = 0
  #actual = 0
  #error = 0
  #missesInARow = 0
  /** Lost prompts from before the engine was unavailable; null: one was kept, or it always was available. */
  #lostAway: number | null = null
  /** Decayed mean of `idleEnds` of confirmed predictions; null: none. */
  #hitIdleEnds: number | null = null
  #sawHit = false
  #silent = false
  #restarts = 0
  #redone = 0

  get report(): CacheReport {
    return {
      reports: this.#reports,
      predictedTokens: this.#predicted,
      actualTokens: this.#actual,
      errorTokens: this.#error,
      silentMiss: this.#silent,
      restarts: this.#restarts,
    }
  }

  get silentMiss(): boolean {
    return this.#silent
  }

  /** Whether the engine recomputes the last cached block. */
  get redoesLast(): boolean {
    return this.#redone >= REDONE_AFTER
  }

  /** @param tokens in its own blocks of so many tokens, surely there and not all of the prompt */
  found(actualTokens: number, tokens: number, ofBlock: number): void {
    if (tokens <= ofBlock) return
    if (actualTokens >= tokens) this.#redone = 0
    else if (actualTokens === tokens - ofBlock) this.#redone++
  }

  /** Some engines omit a zero. Once a count was reported, its absence means zero. */
  actualOf(cachedTokens: number | null): number | null {
    if (cachedTokens !== null) this.#reports = true
    return cachedTokens ?? (this.#reports ? 0 : null)
  }

  /** The engine answers probes again, possibly after a restart. Only blocks from before are evidence of one. */
  revived(): void {
    this.#lostAway = 0
  }

  judge({
    predictedTokens,
    actualTokens,
    uncertainTokens,
    blockTokens,
    idleEnds,
    beforeAway,
  }: CacheOutcome): CacheFinding {
    if (predictedTokens > 0 || actualTokens > 0) {
      this.#predicted += DECAY * (predictedTokens - this.#predicted)
      this.#actual += DECAY * (actualTokens - this.#actual)
      this.#error += DECAY * (Math.abs(actualTokens - predictedTokens) - this.#error)
    }
    const certain = predictedTokens - uncertainTokens
    const judged = certain >= LEAST_TOKENS && certain > blockTokens
    const miss = actualTokens < HIT_SHARE * predictedTokens
    const gone =
      judged && actualTokens < Math.min(GOOD_SHARE * certain, certain - blockTokens) ? 1 - actualTokens / certain : 0
    if (judged && beforeAway && this.#sawHit && this.#lostAway !== null) {
      if (gone === 0) this.#lostAway = null
      else return ++this.#lostAway < RESTART_AFTER ? FINE : this.#restarted(true)
    }
    // A restart also loses recently used blocks. Without this check, every overestimate looks like a restart.
    if (judged && miss) return this.#sawHit && idleEnds > (this.#hitIdleEnds ?? Infinity) ? OUTLIVED : this.#miss()
    if (!judged && actualTokens < LEAST_TOKENS) return FINE
    if (judged && gone === 0)
      this.#hitIdleEnds =
        this.#hitIdleEnds === null ? idleEnds : this.#hitIdleEnds + DECAY * (idleEnds - this.#hitIdleEnds)
    return this.#hit(gone)
  }

  /** Treats earlier misses as evictions, since this hit excludes a restart. */
  #hit(gone: number): CacheFinding {
    const prompts = gone + (this.#sawHit ? this.#missesInARow : 0)
    this.#sawHit = true
    this.#silent = false
    this.#missesInARow = 0
    return prompts > 0 ? { kind: 'evicted', prompts } : FINE
  }

  #miss(): CacheFinding {
    this.#missesInARow++
    if (!this.#sawHit) {
      this.#silent ||= this.#missesInARow >= SILENT_AFTER
      return FINE
    }
    return this.#missesInARow < RESTART_AFTER ? FINE : this.#restarted(false)
  }

  #restarted(away: boolean): CacheFinding {
    this.#restarts++
    this.#missesInARow = 0
    // The engine may have restarted without a cache or with another chat template. Then the alarm follows.
    this.#sawHit = false
    this.#hitIdleEnds = null
    this.#lostAway = null
    return { kind: 'restarted', away }
  }
}
