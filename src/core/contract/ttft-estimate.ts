import { prefillSeconds } from '../latency/prefill-cost-model.ts'
import type { RegionDigest } from './region-digest.ts'

/** Predicted TTFT of one prompt in one pool. */
export interface TtftEstimate {
  /** Seconds of waiting, which changes until the prompt arrives. */
  readonly waitS: number
  /** Seconds of its prefill. */
  readonly prefillS: number
  /** Seconds of its prefill without any cached token. */
  readonly coldS: number
  /** Cached tokens. */
  readonly cachedTokens: number
}

/**
 * Estimates the TTFT. An engine with the prefix has the median load; if that wait is too long, another engine computes
 * everything.
 * @param cachedTokens tokens that some engine of the pool has cached
 * @returns null if no engine is available
 */
export function estimateTtft(
  { soonest, usual }: Pick<RegionDigest, 'soonest' | 'usual'>,
  promptTokens: number,
  cachedTokens: number,
): TtftEstimate | null {
  if (soonest === null || usual === null) return null
  const there = Math.min(cachedTokens, Math.max(0, promptTokens - 1))
  const again = estimate(usual, promptTokens, there)
  const uncached = estimate(soonest, promptTokens, 0)
  return there > 0 && again.waitS + again.prefillS <= uncached.waitS + uncached.prefillS ? again : uncached
}

function estimate(
  { waitS, costModel }: NonNullable<RegionDigest['usual']>,
  promptTokens: number,
  cachedTokens: number,
): TtftEstimate {
  const coldS = prefillSeconds(costModel, { promptTokens, cachedTokens: 0 })
  return {
    waitS,
    prefillS: cachedTokens === 0 ? coldS : prefillSeconds(costModel, { promptTokens, cachedTokens }),
    coldS,
    cachedTokens,
  }
}
