import { prefillWork } from '../../latency/prefill-work.ts'
import { CostTable } from '../cost-table.ts'
import { type PolicyKind, readOptions } from '../policy-options.ts'
import { type Candidate, definePolicy } from '../policy.ts'

const ttftOptions = {
  sharedCache: { default: false, doc: 'All engines load from one cache: the best match counts for each of them.' },
  cache: {
    default: 'any',
    values: ['any', 'lookup'],
    doc:
      'Source of cached tokens: index and lookup, whichever has more, or the lookup alone (no lookup: the ' +
      'fallback decides).',
  },
} as const

const ttftCostTable = new CostTable(['queued_work', 'new_work', 'cached_tokens'])

/** Ranks by queued plus new prefill work, by the trapezoid formula. */
export const ttft: PolicyKind = {
  name: 'ttft',
  doc: 'Least pending plus new prefill work, in query-key pairs.',
  source: 'vllm production-stack#670, with the cached count clamped and ties by least recent work',
  options: ttftOptions,
  create(configured) {
    const { sharedCache, cache } = readOptions(ttftOptions, configured)
    const rank = (
      promptTokens: number,
      candidates: readonly Candidate<'queuedWork'>[],
      cachedOf: (place: number) => number,
    ) => {
      const { costs, terms } = ttftCostTable.reset(candidates.length)
      const { cached_tokens: cached } = terms
      let best = 0
      for (let place = 0; place < candidates.length; place++) {
        cached[place] = Math.min(promptTokens, cachedOf(place))
        best = Math.max(best, cached[place]!)
      }
      for (let place = 0; place < candidates.length; place++) {
        const { queuedWork } = candidates[place]!
        if (sharedCache) cached[place] = best
        const work = prefillWork(promptTokens, cached[place]!)
        terms.queued_work[place] = queuedWork
        terms.new_work[place] = work
        costs[place] = queuedWork + work
      }
      return ttftCostTable.byCost()
    }
    if (cache === 'lookup') {
      return definePolicy({
        name: 'ttft',
        needs: ['queuedWork', 'lookupTokens'],
        rank: ({ promptTokens }, candidates) =>
          rank(promptTokens, candidates, (place) => candidates[place]!.lookupTokens),
      })
    }
    return definePolicy({
      name: 'ttft',
      needs: ['queuedWork', 'cachedTokens'],
      rank: ({ promptTokens }, candidates) =>
        rank(promptTokens, candidates, (place) => candidates[place]!.cachedTokens),
    })
  },
}
