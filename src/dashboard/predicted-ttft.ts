import { TYPICAL_TOKENS } from '../core/contract/region-digest.ts'
import { prefillSeconds } from '../core/latency/prefill-cost-model.ts'
import type { Engine } from './wire.ts'

const PROMPT = { promptTokens: TYPICAL_TOKENS, cachedTokens: 0 }

/** Predicted TTFT of an uncached prompt of `TYPICAL_TOKENS` at this engine now, ms. undefined: unknown. */
export function predictedTtftMs({ queued_prefill_s: waitS, learned }: Engine): number | undefined {
  if (waitS === undefined || learned === undefined) return undefined
  const { fixed_s: fixedS, per_token_s: perTokenS, per_pair_s: perPairS } = learned.cost_model
  return 1000 * (waitS + prefillSeconds({ fixedS, perTokenS, perPairS }, PROMPT))
}
