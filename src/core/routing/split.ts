import type { SplitConfig } from '../cluster/contract.ts'

export interface SplitFacts {
  readonly promptTokens: number
  /** Leading tokens believed cached on the best decode engine. */
  readonly cachedTokens: number
  /** Predicted TTFT of both ways, milliseconds; null: not predicted. */
  readonly splitTtftMs: number | null
  readonly wholeTtftMs: number | null
}

/** Is prefilling elsewhere worth the transfer of the KV cache? Only asked where both ways are possible. */
export function shouldSplit(facts: SplitFacts, config: SplitConfig): boolean {
  switch (config.mode) {
    case 'always':
      return true
    case 'never':
      return false
    case 'threshold':
      return facts.promptTokens >= config.thresholdTokens
    case 'uncached':
      return facts.promptTokens - facts.cachedTokens >= config.thresholdTokens
    case 'adaptive':
      // Without both predictions there is nothing to compare: the uncached rest decides.
      if (facts.splitTtftMs === null || facts.wholeTtftMs === null) return facts.promptTokens - facts.cachedTokens >= config.thresholdTokens
      return facts.splitTtftMs < facts.wholeTtftMs
  }
}
