import { byCost } from '../by-cost.ts'
import { type PolicyKind, readOptions } from '../options.ts'
import { definePolicy } from '../policy.ts'

const options = {
  queued: { default: true, doc: import.meta.bare || 'Count the prefill tokens already queued there with the prompt’s own.' },
} as const

/** New prefill tokens times batch size: two factors, no weights. Plus one each, so that neither zero hides the other. */
export const lmetric: PolicyKind = {
  name: 'lmetric',
  doc: import.meta.bare || 'New prefill tokens x (live requests + 1).',
  source: import.meta.bare || 'LMetric, arXiv 2603.15202',
  options,
  create(given) {
    const { queued } = readOptions(options, given)
    return definePolicy({
      name: 'lmetric',
      needs: ['cachedTokens', 'queuedPrefillTokens', 'requests'],
      rank: ({ promptTokens }, candidates) =>
        byCost(candidates, ({ cachedTokens, queuedPrefillTokens, requests }) => {
          const fresh = Math.max(0, promptTokens - cachedTokens)
          const waiting = queued ? queuedPrefillTokens : 0
          return { cost: (fresh + waiting + 1) * (requests + 1), terms: { new_tokens: fresh, queued_tokens: waiting, requests } }
        }),
    })
  },
}
