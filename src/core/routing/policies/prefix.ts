import { CostTable } from '../cost-table.ts'
import { type PolicyKind, readOptions } from '../policy-options.ts'
import { definePolicy } from '../policy.ts'
import { sortPlaces } from '../sort-places.ts'

const prefixOptions = {
  minMatch: {
    default: 0.3,
    min: 0,
    max: 1,
    doc: 'Share of the prompt that must be cached somewhere for the cache to decide.',
  },
  imbalanceAbs: {
    default: 64,
    min: 0,
    max: 100_000,
    doc: 'Load is out of balance when the busiest engine has this many more live requests than the idlest …',
  },
  imbalanceRel: { default: 1.5, min: 1, max: 1000, doc: '… and this many times as many.' },
} as const

const prefixCostTable = new CostTable(['cached_tokens', 'requests', 'by_cache'])

/** Longest cached prefix, unless requests are unbalanced or no engine has enough of it: then fewest live requests. */
export const prefix: PolicyKind = {
  name: 'prefix',
  doc: 'Longest cached prefix, unless load is out of balance: then fewest live requests.',
  source:
    'cache_aware of the SGLang gateway and vllm-router; a miss goes to the least loaded, not to the smallest tree',
  options: prefixOptions,
  create(configured) {
    const { minMatch, imbalanceAbs, imbalanceRel } = readOptions(prefixOptions, configured)
    return definePolicy({
      name: 'prefix',
      needs: ['cachedTokens', 'requests'],
      rank({ promptTokens }, candidates) {
        const { costs, terms, order } = prefixCostTable.reset(candidates.length)
        let maxRequests = 0
        let minRequests = Infinity
        let best = 0
        for (const { requests, cachedTokens } of candidates) {
          maxRequests = Math.max(maxRequests, requests)
          minRequests = Math.min(minRequests, requests)
          best = Math.max(best, cachedTokens)
        }
        const balanced = maxRequests - minRequests <= imbalanceAbs || maxRequests <= imbalanceRel * minRequests
        const byCache = balanced && best > minMatch * promptTokens
        for (let place = 0; place < candidates.length; place++) {
          const { cachedTokens, requests } = candidates[place]!
          terms.cached_tokens[place] = cachedTokens
          terms.requests[place] = requests
          terms.by_cache[place] = byCache ? 1 : 0
          costs[place] = byCache ? promptTokens - cachedTokens : requests
        }
        // Engines that hold the same share of the prompt stay in the order of requests: the sort is stable.
        sortPlaces(order, terms.requests, 0, candidates.length)
        return prefixCostTable.byCost()
      },
    })
  },
}
