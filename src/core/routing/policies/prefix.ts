import { type PolicyKind, readOptions } from '../options.ts'
import { definePolicy } from '../policy.ts'

const options = {
  minMatch: { default: 0.3, min: 0, max: 1, doc: import.meta.bare || 'Share of the prompt that must be cached somewhere for the cache to decide.' },
  imbalanceAbs: { default: 64, min: 0, max: 100_000, doc: import.meta.bare || 'Load is out of balance when the busiest engine has this many more live requests than the idlest …' },
  imbalanceRel: { default: 1.5, min: 1, max: 1000, doc: import.meta.bare || '… and this many times as many.' },
} as const

/** Longest cached prefix, unless requests are out of balance or nobody has enough of it: then fewest live requests. */
export const prefix: PolicyKind = {
  name: 'prefix',
  doc: import.meta.bare || 'Longest cached prefix, unless load is out of balance: then fewest live requests.',
  source: import.meta.bare || 'cache_aware of the SGLang gateway and vllm-router; a miss goes to the least loaded, not to the smallest tree',
  options,
  create(given) {
    const { minMatch, imbalanceAbs, imbalanceRel } = readOptions(options, given)
    return definePolicy({
      name: 'prefix',
      needs: ['cachedTokens', 'requests'],
      rank({ promptTokens }, candidates) {
        const loads = candidates.map(({ requests }) => requests)
        const most = Math.max(...loads)
        const least = Math.min(...loads)
        const balanced = most - least <= imbalanceAbs || most <= imbalanceRel * least
        const best = Math.max(0, ...candidates.map(({ cachedTokens }) => cachedTokens))
        const byCache = balanced && best > minMatch * promptTokens
        return candidates
          .map(({ id, cachedTokens, requests }) => ({
            engine: id,
            cost: byCache ? promptTokens - cachedTokens : requests,
            terms: { cached_tokens: cachedTokens, requests, by_cache: byCache ? 1 : 0 },
          }))
          .sort((one, other) => one.cost - other.cost || one.terms.requests - other.terms.requests)
      },
    })
  },
}
