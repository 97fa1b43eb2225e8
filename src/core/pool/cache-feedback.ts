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

/** A request's cached tokens as predicted when it was booked and as the engine reported them. */
export interface CacheOutcome {
  readonly predictedTokens: number
  readonly actualTokens: number
  /**
   * Of the predicted, those that were only about to be cached (a live request ahead may not have prefilled them yet):
   * their absence says nothing.
   */
  readonly uncertainTokens: number
  /** Tokens of one block, which may be computed anew though it is there. */
  readonly blockTokens: number
  /** How many requests had ended, on any engine, since the predicted was last used. */
  readonly idleEnds: number
  /** It was last used before the engine last was away. Of no account until `revived`. */
  readonly beforeAway: boolean
}

export type CacheVerdict =
  /** As predicted, or too little to tell. */
  | { readonly kind: 'fine' }
  /** Blocks believed there are gone: the engine evicts earlier than we do. `prompts` worth of them (0.5: half of one). */
  | { readonly kind: 'evicted'; readonly prompts: number }
  /** All that was believed is gone, and had been unused for longer than what is there usually has: evicted, at that age. */
  | { readonly kind: 'outlived' }
  /** All that was believed is gone, again and again, where there were hits before. `away`: what was there before it was away; what came since is there. */
  | { readonly kind: 'restarted'; readonly away: boolean }

const FINE: CacheVerdict = { kind: 'fine' }
const OUTLIVED: CacheVerdict = { kind: 'outlived' }

export interface CacheReport {
  /** Has the engine ever reported cached tokens? */
  readonly reports: boolean
  /** Decayed means over requests where something was predicted or reported. */
  readonly predictedTokens: number
  readonly actualTokens: number
  readonly errorTokens: number
  /** Hits are predicted and never seen. */
  readonly silentMiss: boolean
  readonly restarts: number
}

/** Below this a prediction is too small to judge by: engines cut blocks differently, lookups in chunks of 256. */
const LEAST_TOKENS = 256
/** A report below this share of the prediction is no hit. */
const HIT_SHARE = 0.1
/** A report above this share is as good as predicted. */
const GOOD_SHARE = 0.9
/** Misses in a row, where hits were the rule and by their age it were hits again, that mean a restart; or losses of what was there before it was away. */
const RESTART_AFTER = 3
/** Misses in a row, without one hit ever, that raise the alarm. */
const SILENT_AFTER = 8
/** Answers in a row without the last block that was there: engines that draft tokens (EAGLE, MTP) compute it anew. */
const REDONE_AFTER = 8
const DECAY = 0.05

export const SILENT_MISS_CAUSES = [
  'the chat template the gateway renders differs from the engine’s',
  'the engine’s prefix caching is off (--no-enable-prefix-caching)',
  'a cache_salt is added between the gateway and the engine',
  'the engine serves another model or adapter than the pool says',
  'block_tokens is smaller than the engine’s block size, or the engine’s cache is too small to keep anything',
] as const

/** What one engine's reports of cached tokens say about our picture of its cache. */
export class CacheFeedback {
  #reports = false
  #predicted = 0
  #actual = 0
  #error = 0
  #missesInARow = 0
  /** Prompts from before it was away that were lost since; null: it kept one, or never was away. */
  #lostAway: number | null = null
  /** Decayed mean of `idleEnds` where all was there; null: never. */
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

  /** It computes the last block it finds anew. */
  get redoesLast(): boolean {
    return this.#redone >= REDONE_AFTER
  }

  /** @param tokens in its own blocks of so many tokens, surely there and not all of the prompt */
  found(actualTokens: number, tokens: number, ofBlock: number): void {
    if (tokens <= ofBlock) return
    if (actualTokens >= tokens) this.#redone = 0
    else if (actualTokens === tokens - ofBlock) this.#redone++
  }

  /** Some engines leave the count out when it is zero: once it has been seen, its absence is a zero. */
  actualOf(cachedTokens: number | null): number | null {
    if (cachedTokens !== null) this.#reports = true
    return cachedTokens ?? (this.#reports ? 0 : null)
  }

  /** It had been away, perhaps for a restart. What it had before tells; what came since does not, nor how long ago either was used. */
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
  }: CacheOutcome): CacheVerdict {
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
    // A restart takes what was used just now as well. Not told apart, whoever keeps less than believed looks restarted.
    if (judged && miss) return this.#sawHit && idleEnds > (this.#hitIdleEnds ?? Infinity) ? OUTLIVED : this.#miss()
    if (!judged && actualTokens < LEAST_TOKENS) return FINE
    if (judged && gone === 0)
      this.#hitIdleEnds =
        this.#hitIdleEnds === null ? idleEnds : this.#hitIdleEnds + DECAY * (idleEnds - this.#hitIdleEnds)
    return this.#hit(gone)
  }

  /** Whole prompts missed before this hit were evicted after all, not lost in a restart. */
  #hit(gone: number): CacheVerdict {
    const prompts = gone + (this.#sawHit ? this.#missesInARow : 0)
    this.#sawHit = true
    this.#silent = false
    this.#missesInARow = 0
    return prompts > 0 ? { kind: 'evicted', prompts } : FINE
  }

  #miss(): CacheVerdict {
    this.#missesInARow++
    if (!this.#sawHit) {
      this.#silent ||= this.#missesInARow >= SILENT_AFTER
      return FINE
    }
    return this.#missesInARow < RESTART_AFTER ? FINE : this.#restarted(false)
  }

  #restarted(away: boolean): CacheVerdict {
    this.#restarts++
    this.#missesInARow = 0
    // It may have come back with another template or without a cache: then no hit follows, and the alarm will.
    this.#sawHit = false
    this.#hitIdleEnds = null
    this.#lostAway = null
    return { kind: 'restarted', away }
  }
}
