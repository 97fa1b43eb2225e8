import type { SplitConfig } from '../contract/pool-config.ts'

interface SplitFacts {
  /** Prompt length for the threshold. */
  readonly promptTokens: number
  /** Cached leading tokens on the best decode engine. */
  readonly cachedTokens: number
  /** Predicted TTFT unsplit and split, milliseconds; null: unknown. The split includes the KV transfer. */
  readonly splitTtftMs: number | null
  readonly wholeTtftMs: number | null
}

export interface SplitDecision {
  readonly split: boolean
  /** Comparison for the decision log. */
  readonly why: string
}

/** Decides whether prefill on another engine is worth the KV transfer. Called only if both are possible. */
export function decideSplit(facts: SplitFacts, config: SplitConfig): SplitDecision {
  const { promptTokens, cachedTokens, splitTtftMs, wholeTtftMs } = facts
  switch (config.mode) {
    case 'always':
      return { split: true, why: 'always' }
    case 'never':
      return { split: false, why: 'never' }
    case 'threshold':
      return byThreshold('prompt', promptTokens, config.thresholdTokens)
    case 'uncached':
      return byThreshold('uncached', promptTokens - cachedTokens, config.thresholdTokens)
    case 'adaptive':
      // Without both predictions, the uncached tokens decide.
      if (splitTtftMs === null || wholeTtftMs === null)
        return byThreshold('uncached', promptTokens - cachedTokens, config.thresholdTokens)
      return {
        split: splitTtftMs < wholeTtftMs,
        why: `split ${Math.round(splitTtftMs)} ms, whole ${Math.round(wholeTtftMs)} ms`,
      }
  }
}

/** @testing */
export function shouldSplit(facts: SplitFacts, config: SplitConfig): boolean {
  return decideSplit(facts, config).split
}

/** A prompt of exactly the threshold is split (production-stack#890; its own unit test expects otherwise and fails). */
function byThreshold(what: string, tokens: number, threshold: number): SplitDecision {
  const split = tokens >= threshold
  return { split, why: `${tokens} ${what} tokens ${split ? '>=' : '<'} ${threshold}` }
}
