import { CostTable } from '../cost-table.ts'
import { type PolicyKind, readOptions } from '../policy-options.ts'
import { definePolicy } from '../policy.ts'

const kvAwareOptions = {
  threshold: {
    default: 2000,
    min: 0,
    max: 1e9,
    doc: 'Uncached tokens tolerated on the best engine; beyond, the fallback decides. 0: only a full match counts.',
  },
} as const

const kvAwareCostTable = new CostTable(['matched_tokens'])

/** Longest match of the LMCache lookup. Ranks no engine if the match is too short: then the fallback decides. */
export const kvAware: PolicyKind = {
  name: 'kv_aware',
  doc: 'Longest LMCache match; session, then qps, when more than `threshold` tokens would stay uncached.',
  source: 'vllm production-stack, kvaware: falls back when matched < max(prompt - threshold, 0)',
  options: kvAwareOptions,
  create(configured) {
    const { threshold } = readOptions(kvAwareOptions, configured)
    return definePolicy({
      name: 'kv_aware',
      needs: ['lookupTokens'],
      rank({ promptTokens }, candidates) {
        const { costs, terms } = kvAwareCostTable.reset(candidates.length)
        let best = 0
        for (let place = 0; place < candidates.length; place++) {
          const { lookupTokens } = candidates[place]!
          best = Math.max(best, lookupTokens)
          terms.matched_tokens[place] = lookupTokens
          costs[place] = Math.max(0, promptTokens - lookupTokens)
        }
        // No match is longer: the last token is computed anew, whatever is cached.
        const minMatch = Math.min(promptTokens - threshold, promptTokens - 1)
        return best === 0 || best < minMatch ? kvAwareCostTable.reset(0) : kvAwareCostTable.byCost()
      },
    })
  },
}
