import { prefillWork } from '../../cluster/prefill-work.ts'
import { byCost } from '../by-cost.ts'
import { type PolicyKind, readOptions } from '../options.ts'
import { type Candidate, definePolicy } from '../policy.ts'

const options = {
  sharedCache: { default: false, doc: import.meta.bare || 'All engines load from one cache: the best match counts for each of them.' },
  cache: { default: 'any', values: ['any', 'lookup'], doc: import.meta.bare || 'What is believed of caches: index and lookup, whichever knows more, or the lookup alone (no lookup: the fallback decides).' },
} as const

/** Least queued plus new prefill work by the trapezoid formula. */
export const ttft: PolicyKind = {
  name: 'ttft',
  doc: import.meta.bare || 'Least pending plus new prefill work, in query-key pairs.',
  source: import.meta.bare || 'vllm production-stack#670, with the cached count clamped and ties by least recent work',
  options,
  create(given) {
    const { sharedCache, cache } = readOptions(options, given)
    const rank = (promptTokens: number, candidates: readonly Candidate<'queuedWork'>[], cachedOf: (at: number) => number) => {
      const cached = candidates.map((_, at) => Math.min(promptTokens, cachedOf(at)))
      const best = Math.max(0, ...cached)
      const places = new Map(candidates.map((candidate, at) => [candidate, at]))
      return byCost(candidates, (candidate) => {
        const usable = sharedCache ? best : cached[places.get(candidate)!]!
        const work = prefillWork(promptTokens, usable)
        return { cost: candidate.queuedWork + work, terms: { queued_work: candidate.queuedWork, new_work: work, cached_tokens: usable } }
      })
    }
    if (cache === 'lookup') {
      return definePolicy({
        name: 'ttft',
        needs: ['queuedWork', 'lookupTokens'],
        rank: ({ promptTokens }, candidates) => rank(promptTokens, candidates, (at) => candidates[at]!.lookupTokens),
      })
    }
    return definePolicy({
      name: 'ttft',
      needs: ['queuedWork', 'cachedTokens'],
      rank: ({ promptTokens }, candidates) => rank(promptTokens, candidates, (at) => candidates[at]!.cachedTokens),
    })
  },
}
