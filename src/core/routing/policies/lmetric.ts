import { CostTable } from '../cost-table.ts'
import { type PolicyKind, readOptions } from '../policy-options.ts'
import { definePolicy } from '../policy.ts'

const lmetricOptions = {
  queued: { default: true, doc: 'Count the prefill tokens already queued there with the prompt’s own.' },
} as const

const lmetricCostTable = new CostTable(['new_tokens', 'queued_tokens', 'requests'])

/**
 * New prefill tokens times batch size: two factors, no weights. Plus one each, so that neither zero hides the other.
 */
export const lmetric: PolicyKind = {
  name: 'lmetric',
  doc: 'New prefill tokens x (live requests + 1).',
  source: 'LMetric, arXiv 2603.15202',
  options: lmetricOptions,
  create(configured) {
    const { queued } = readOptions(lmetricOptions, configured)
    return definePolicy({
      name: 'lmetric',
      needs: ['cachedTokens', 'queuedPrefillTokens', 'requests'],
      rank({ promptTokens }, candidates) {
        const { costs, terms } = lmetricCostTable.reset(candidates.length)
        for (let place = 0; place < candidates.length; place++) {
          const { cachedTokens, queuedPrefillTokens, requests } = candidates[place]!
          const newTokens = Math.max(0, promptTokens - cachedTokens)
          const queuedTokens = queued ? queuedPrefillTokens : 0
          terms.new_tokens[place] = newTokens
          terms.queued_tokens[place] = queuedTokens
          terms.requests[place] = requests
          costs[place] = (newTokens + queuedTokens + 1) * (requests + 1)
        }
        return lmetricCostTable.byCost()
      },
    })
  },
}
