import { byCost, type Price } from '../by-cost.ts'
import { type OptionValues, type PolicyKind, readOptions } from '../options.ts'
import { type Candidate, definePolicy, type RouteRequest } from '../policy.ts'
import { softmax } from '../softmax.ts'

const options = {
  overlapWeight: { default: 1, min: 0, max: 100, doc: import.meta.bare || 'What an uncached prompt block costs against an active one. 0: load alone decides.' },
  temperature: { default: 0, min: 0, max: 10, doc: import.meta.bare || 'Softmax temperature. 0: the cheapest engine.' },
  rule: { default: 'pull_request', values: ['pull_request', 'today'], doc: import.meta.bare || 'The cost of the pull request, or today’s with the options below.' },
  overlapCredit: { default: 1, min: 0, max: 10, doc: import.meta.bare || 'today: credit of a block cached on the GPU.' },
  hostCredit: { default: 0.75, min: 0, max: 10, doc: import.meta.bare || 'today: credit of a block cached in host memory.' },
  diskCredit: { default: 0.25, min: 0, max: 10, doc: import.meta.bare || 'today: credit of a block cached on disk.' },
  sharedCredit: { default: 0, min: 0, max: 10, doc: import.meta.bare || 'today: credit of a block cached elsewhere.' },
  creditDecay: { default: 0, min: 0, max: 100, doc: import.meta.bare || 'today: how fast GPU credit fades as the engine’s queue grows past the shortest one.' },
  requestWeight: { default: 0, min: 0, max: 10_000, doc: import.meta.bare || 'today: blocks that a live request counts for by itself.' },
} as const

type Options = OptionValues<typeof options>
type Seen = Candidate<'activeBlocks' | 'newActiveBlocks' | 'cachedTokens' | 'queuedPrefillTokens' | 'requests' | 'slowTokens'>

/** Uncached prompt blocks plus the blocks the engine would then hold for live requests. */
export const activeBlocks: PolicyKind = {
  name: 'active_blocks',
  doc: import.meta.bare || 'Overlap-weighted uncached blocks plus potential active blocks; optionally a softmax draw.',
  source: import.meta.bare || 'ai-dynamo/dynamo#1731 (`rule: pull_request`); ai-dynamo/dynamo, 2026 (`rule: today`)',
  options,
  create(given) {
    const values = readOptions(options, given)
    if (values.rule === 'today') {
      return definePolicy({
        name: 'active_blocks',
        needs: ['activeBlocks', 'newActiveBlocks', 'cachedTokens', 'queuedPrefillTokens', 'requests', 'slowTokens'],
        rank(request, candidates, random) {
          const shortest = Math.min(...candidates.map(({ queuedPrefillTokens }) => queuedPrefillTokens))
          return softmax(byCost(candidates, (candidate) => todaysPrice(request, candidate, shortest, values)), values.temperature, 'range', random)
        },
      })
    }
    return definePolicy({
      name: 'active_blocks',
      needs: ['activeBlocks', 'newActiveBlocks', 'cachedTokens'],
      rank(request, candidates, random) {
        const ranked = byCost(candidates, ({ cachedTokens, activeBlocks: active, newActiveBlocks }) => {
          const prefill = promptBlocks(request) - Math.floor(Math.min(cachedTokens, request.promptTokens) / request.blockTokens)
          const potential = active + newActiveBlocks
          return { cost: values.overlapWeight * prefill + potential, terms: { prefill_blocks: prefill, potential_blocks: potential } }
        })
        return softmax(ranked, values.temperature, 'max', random)
      },
    })
  },
}

function promptBlocks({ promptTokens, blockTokens }: RouteRequest): number {
  return Math.ceil(promptTokens / blockTokens)
}

/** `overlapWeight` is today's prefill_load_scale, which it was renamed to; 0 takes the credit with it. */
function todaysPrice(request: RouteRequest, candidate: Seen, shortestQueue: number, values: Options): Price {
  const { blockTokens, promptTokens } = request
  const { host, disk, remote } = candidate.slowTokens
  const device = Math.max(0, Math.min(candidate.cachedTokens, promptTokens) - host - disk - remote) / blockTokens
  const excess = (candidate.queuedPrefillTokens - shortestQueue) / blockTokens
  const fade = 1 / (1 + (values.creditDecay * excess) / Math.max(1, promptBlocks(request)))
  const credit =
    values.overlapCredit * fade * device +
    (values.hostCredit * host + values.diskCredit * disk + values.sharedCredit * remote) / blockTokens
  const prefill = Math.max(0, (candidate.queuedPrefillTokens + promptTokens) / blockTokens - credit)
  const potential = candidate.activeBlocks + candidate.newActiveBlocks
  return {
    cost: values.overlapWeight * prefill + potential + values.requestWeight * candidate.requests,
    terms: { prefill_blocks: prefill, potential_blocks: potential, credit_blocks: credit, requests: candidate.requests },
  }
}
