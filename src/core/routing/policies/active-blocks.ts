/** Policies that weigh cached prefixes against load with fixed formulas. */
import { CostTable } from '../cost-table.ts'
import { type OptionValues, type PolicyKind, readOptions } from '../policy-options.ts'
import { type Candidate, definePolicy, type RouteRequest } from '../policy.ts'
import { softmax } from '../softmax.ts'

const activeBlocksOptions = {
  overlapWeight: {
    default: 1,
    min: 0,
    max: 100,
    doc: 'What an uncached prompt block costs against an active one. 0: load alone decides.',
  },
  temperature: { default: 0, min: 0, max: 10, doc: 'Softmax temperature. 0: the cheapest engine.' },
  rule: {
    default: 'pull_request',
    values: ['pull_request', 'today'],
    doc: 'The cost of the pull request, or today’s with the options below.',
  },
  overlapCredit: { default: 1, min: 0, max: 10, doc: 'today: credit of a block cached on the GPU.' },
  hostCredit: { default: 0.75, min: 0, max: 10, doc: 'today: credit of a block cached in host memory.' },
  diskCredit: { default: 0.25, min: 0, max: 10, doc: 'today: credit of a block cached on disk.' },
  sharedCredit: { default: 0, min: 0, max: 10, doc: 'today: credit of a block cached elsewhere.' },
  creditDecay: {
    default: 0,
    min: 0,
    max: 100,
    doc: 'today: how fast GPU credit fades as the engine’s queue grows past the shortest one.',
  },
  requestWeight: { default: 0, min: 0, max: 10_000, doc: 'today: blocks that a live request counts for by itself.' },
} as const

type ActiveBlocksOptions = OptionValues<typeof activeBlocksOptions>

type ActiveBlocksCandidate = Candidate<
  'activeBlocks' | 'newActiveBlocks' | 'cachedTokens' | 'queuedPrefillTokens' | 'requests' | 'slowTokens'
>

const activeBlocksCostTable = new CostTable(['prefill_blocks', 'potential_blocks'])

const currentCostTable = new CostTable(['prefill_blocks', 'potential_blocks', 'credit_blocks', 'requests'])

/** Uncached prompt blocks plus the blocks the engine would then hold for live requests. */
export const activeBlocks: PolicyKind = {
  name: 'active_blocks',
  doc: 'Overlap-weighted uncached blocks plus potential active blocks; optionally a softmax draw.',
  source: 'ai-dynamo/dynamo#1731 (`rule: pull_request`); ai-dynamo/dynamo, 2026 (`rule: today`)',
  options: activeBlocksOptions,
  create(configured) {
    const values = readOptions(activeBlocksOptions, configured)
    if (values.rule === 'today') {
      return definePolicy({
        name: 'active_blocks',
        needs: ['activeBlocks', 'newActiveBlocks', 'cachedTokens', 'queuedPrefillTokens', 'requests', 'slowTokens'],
        rank(request, candidates, random) {
          fillCurrentCosts(request, candidates, values)
          return softmax(currentCostTable.byCost(), values.temperature, 'range', random)
        },
      })
    }
    return definePolicy({
      name: 'active_blocks',
      needs: ['activeBlocks', 'newActiveBlocks', 'cachedTokens'],
      rank(request, candidates, random) {
        const { costs, terms } = activeBlocksCostTable.reset(candidates.length)
        for (let place = 0; place < candidates.length; place++) {
          const { cachedTokens, activeBlocks: active, newActiveBlocks } = candidates[place]!
          const prefill =
            promptBlocks(request) - Math.floor(Math.min(cachedTokens, request.promptTokens) / request.blockTokens)
          const potential = active + newActiveBlocks
          terms.prefill_blocks[place] = prefill
          terms.potential_blocks[place] = potential
          costs[place] = values.overlapWeight * prefill + potential
        }
        return softmax(activeBlocksCostTable.byCost(), values.temperature, 'max', random)
      },
    })
  },
}

function promptBlocks({ promptTokens, blockTokens }: RouteRequest): number {
  return Math.ceil(promptTokens / blockTokens)
}

/** `overlapWeight` is today's prefill_load_scale, which it was renamed to; 0 takes the credit with it. */
function fillCurrentCosts(
  request: RouteRequest,
  candidates: readonly ActiveBlocksCandidate[],
  values: ActiveBlocksOptions,
): void {
  const { blockTokens, promptTokens } = request
  const { costs, terms } = currentCostTable.reset(candidates.length)
  let shortestQueue = Infinity
  for (const { queuedPrefillTokens } of candidates) shortestQueue = Math.min(shortestQueue, queuedPrefillTokens)
  for (let place = 0; place < candidates.length; place++) {
    const candidate = candidates[place]!
    const { host, disk, remote } = candidate.slowTokens
    const device = Math.max(0, Math.min(candidate.cachedTokens, promptTokens) - host - disk - remote) / blockTokens
    const excess = (candidate.queuedPrefillTokens - shortestQueue) / blockTokens
    const fade = 1 / (1 + (values.creditDecay * excess) / Math.max(1, promptBlocks(request)))
    const credit =
      values.overlapCredit * fade * device +
      (values.hostCredit * host + values.diskCredit * disk + values.sharedCredit * remote) / blockTokens
    const prefill = Math.max(0, (candidate.queuedPrefillTokens + promptTokens) / blockTokens - credit)
    const potential = candidate.activeBlocks + candidate.newActiveBlocks
    terms.prefill_blocks[place] = prefill
    terms.potential_blocks[place] = potential
    terms.credit_blocks[place] = credit
    terms.requests[place] = candidate.requests
    costs[place] = values.overlapWeight * prefill + potential + values.requestWeight * candidate.requests
  }
}
