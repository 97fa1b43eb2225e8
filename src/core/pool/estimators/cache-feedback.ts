/** Cached tokens of a request: as predicted at booking and as reported by the engine. */
interface CacheOutcome {
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

/** @testing */
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

interface CacheReport {
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
const MIN_TOKENS = 256

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
  'the engine serves another model or adapter than the pool configures',
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
    const judged = certain >= MIN_TOKENS && certain > blockTokens
    const miss = actualTokens < HIT_SHARE * predictedTokens
    const gone =
      judged && actualTokens < Math.min(GOOD_SHARE * certain, certain - blockTokens) ? 1 - actualTokens / certain : 0
    if (judged && beforeAway && this.#sawHit && this.#lostAway !== null) {
      if (gone === 0) this.#lostAway = null
      else return ++this.#lostAway < RESTART_AFTER ? FINE : this.#restarted(true)
    }
    // A restart also loses recently used blocks. Without this check, every overestimate looks like a restart.
    if (judged && miss) return this.#sawHit && idleEnds > (this.#hitIdleEnds ?? Infinity) ? OUTLIVED : this.#miss()
    if (!judged && actualTokens < MIN_TOKENS) return FINE
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
