import type { SplitConfig } from '../contract/contract.ts'

export interface SplitFacts {
  /** Prompt length as the threshold counts it. */
  readonly promptTokens: number
  /** Leading tokens believed cached on the best decode engine. */
  readonly cachedTokens: number
  /** Predicted TTFT of both ways, milliseconds; null: not predicted. That of the split has the hand-over in it. */
  readonly splitTtftMs: number | null
  readonly wholeTtftMs: number | null
}

export interface SplitVerdict {
  readonly split: boolean
  /** For the decision: the comparison that was made. */
  readonly why: string
}

/** Is prefilling elsewhere worth the transfer of the KV cache? Only asked where both ways are possible. */
export function splitVerdict(facts: SplitFacts, config: SplitConfig): SplitVerdict {
  const { promptTokens, cachedTokens, splitTtftMs, wholeTtftMs } = facts
  switch (config.mode) {
    case 'always':
      return { split: true, why: 'always' }
    case 'never':
      return { split: false, why: 'never' }
    case 'threshold':
      return from('prompt', promptTokens, config.thresholdTokens)
    case 'uncached':
      return from('uncached', promptTokens - cachedTokens, config.thresholdTokens)
    case 'adaptive':
      // Without both predictions there is nothing to compare: the uncached rest decides.
      if (splitTtftMs === null || wholeTtftMs === null)
        return from('uncached', promptTokens - cachedTokens, config.thresholdTokens)
      return {
        split: splitTtftMs < wholeTtftMs,
        why: `split ${Math.round(splitTtftMs)} ms, whole ${Math.round(wholeTtftMs)} ms`,
      }
  }
}

export function shouldSplit(facts: SplitFacts, config: SplitConfig): boolean {
  return splitVerdict(facts, config).split
}

/** At the threshold it is split (production-stack#890; its own unit test says otherwise, and fails). */
function from(what: string, tokens: number, threshold: number): SplitVerdict {
  const split = tokens >= threshold
  return { split, why: `${tokens} ${what} tokens ${split ? '>=' : '<'} ${threshold}` }
}
