import { type PolicyKind, readOptions } from '../options.ts'
import { definePolicy } from '../policy.ts'
import { CostTable } from '../cost-table.ts'

const options = {
  queued: { default: true, doc: 'Count the prefill tokens already queued there with the prompt’s own.' },
} as const

const costTable = new CostTable(['new_tokens', 'queued_tokens', 'requests'])

/**
 * New prefill tokens times batch size: two factors, no weights. Plus one each, so that neither zero hides the other.
 */
export const lmetric: PolicyKind = {
  name: 'lmetric',
  doc: 'New prefill tokens x (live requests + 1).',
  source: 'LMetric, arXiv 2603.15202',
  options,
  create(given) {
    const { queued } = readOptions(options, given)
    return definePolicy({
      name: 'lmetric',
      needs: ['cachedTokens', 'queuedPrefillTokens', 'requests'],
      rank({ promptTokens }, candidates) {
        const { costs, terms } = costTable.reset(candidates.length)
        for (let place = 0; place < candidates.length; place++) {
          const { cachedTokens, queuedPrefillTokens, requests } = candidates[place]!
          const fresh = Math.max(0, promptTokens - cachedTokens)
          const waiting = queued ? queuedPrefillTokens : 0
          terms.new_tokens[place] = fresh
          terms.queued_tokens[place] = waiting
          terms.requests[place] = requests
          costs[place] = (fresh + waiting + 1) * (requests + 1)
        }
        return costTable.byCost()
      },
    })
  },
}
