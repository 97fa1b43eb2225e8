import { newTokens, prefillSeconds, type PrefillCostModel, type PromptSize } from '../../latency/prefill-cost-model.ts'

/** Learned pace of an engine. */
interface LearnedCosts {
  readonly costModel: PrefillCostModel
  /** Longest prompt that it was learned from, tokens; 0: none. */
  readonly longestTokens: number
}

/** Prefill of one prompt, ms. */
interface Prefill {
  readonly prefillMs: number
  /** Time by which it may take longer, because the prompt is longer than all that the pace was learned from. */
  readonly beyondMs: number
}

/**
 * Returns the prefill of a prompt, and how much longer it may take. The predicted time is right for the longest prompt
 * that the pace was learned from. Beyond, it grows at least linearly, although the fit to short prompts may have put
 * all of their time into its fixed part, and at most quadratically, as attention does.
 * @param predictedMs predicted prefill of the prompt
 */
export function extrapolated(
  size: PromptSize,
  predictedMs: number,
  { costModel, longestTokens }: LearnedCosts,
): Prefill {
  const ratio = longestTokens > 0 ? size.promptTokens / longestTokens : 1
  if (ratio <= 1) return { prefillMs: predictedMs, beyondMs: 0 }
  const longestMs = 1000 * prefillSeconds(costModel, { promptTokens: longestTokens, cachedTokens: 0 })
  const prefillMs = Math.max(predictedMs, (longestMs * newTokens(size)) / longestTokens)
  return { prefillMs, beyondMs: prefillMs * (ratio - 1) }
}
