/** Policies that weigh cached prefixes against load with fixed formulas. */
import { type PolicyKind, readOptions, type OptionValues } from '../options.ts'
import { definePolicy, type Candidate, type RouteRequest } from '../policy.ts'
import { CostTable, sortPlaces } from '../cost-table.ts'
import { prefillWork } from '../../pool/prefill-queue.ts'
import { softmax } from '../ranking.ts'

const ttftOptions = {
  sharedCache: { default: false, doc: 'All engines load from one cache: the best match counts for each of them.' },
  cache: {
    default: 'any',
    values: ['any', 'lookup'],
    doc:
      'What is believed of caches: index and lookup, whichever knows more, or the lookup alone (no lookup: the ' +
      'fallback decides).',
  },
} as const

const ttftCostTable = new CostTable(['queued_work', 'new_work', 'cached_tokens'])

/** Least queued plus new prefill work by the trapezoid formula. */
export const ttft: PolicyKind = {
  name: 'ttft',
  doc: 'Least pending plus new prefill work, in query-key pairs.',
  source: 'vllm production-stack#670, with the cached count clamped and ties by least recent work',
  options: ttftOptions,
  create(given) {
    const { sharedCache, cache } = readOptions(ttftOptions, given)
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
  create(given) {
    const { queued } = readOptions(lmetricOptions, given)
    return definePolicy({
      name: 'lmetric',
      needs: ['cachedTokens', 'queuedPrefillTokens', 'requests'],
      rank({ promptTokens }, candidates) {
        const { costs, terms } = lmetricCostTable.reset(candidates.length)
        for (let place = 0; place < candidates.length; place++) {
          const { cachedTokens, queuedPrefillTokens, requests } = candidates[place]!
          const fresh = Math.max(0, promptTokens - cachedTokens)
          const waiting = queued ? queuedPrefillTokens : 0
          terms.new_tokens[place] = fresh
          terms.queued_tokens[place] = waiting
          terms.requests[place] = requests
          costs[place] = (fresh + waiting + 1) * (requests + 1)
        }
        return lmetricCostTable.byCost()
      },
    })
  },
}

const kvAwareOptions = {
  threshold: {
    default: 2000,
    min: 0,
    max: 1e9,
    doc: 'Uncached tokens tolerated on the best engine; beyond, the fallback decides. 0 asks for a full match.',
  },
} as const

const kvAwareCostTable = new CostTable(['matched_tokens'])

/** Longest match of the LMCache lookup. Ranks no engine if the match is too short: then the fallback decides. */
export const kvAware: PolicyKind = {
  name: 'kv_aware',
  doc: 'Longest LMCache match; session, then qps, when more than `threshold` tokens would stay uncached.',
  source: 'vllm production-stack, kvaware: falls back when matched < max(prompt - threshold, 0)',
  options: kvAwareOptions,
  create(given) {
    const { threshold } = readOptions(kvAwareOptions, given)
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
        const asked = Math.min(promptTokens - threshold, promptTokens - 1)
        return best === 0 || best < asked ? kvAwareCostTable.reset(0) : kvAwareCostTable.byCost()
      },
    })
  },
}

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
  create(given) {
    const { minMatch, imbalanceAbs, imbalanceRel } = readOptions(prefixOptions, given)
    return definePolicy({
      name: 'prefix',
      needs: ['cachedTokens', 'requests'],
      rank({ promptTokens }, candidates) {
        const { costs, terms, order } = prefixCostTable.reset(candidates.length)
        let most = 0
        let least = Infinity
        let best = 0
        for (const { requests, cachedTokens } of candidates) {
          most = Math.max(most, requests)
          least = Math.min(least, requests)
          best = Math.max(best, cachedTokens)
        }
        const balanced = most - least <= imbalanceAbs || most <= imbalanceRel * least
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
  create(given) {
    const values = readOptions(activeBlocksOptions, given)
    if (values.rule === 'today') {
      return definePolicy({
        name: 'active_blocks',
        needs: ['activeBlocks', 'newActiveBlocks', 'cachedTokens', 'queuedPrefillTokens', 'requests', 'slowTokens'],
        rank(request, candidates, random) {
          priceAsToday(request, candidates, values)
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
function priceAsToday(
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
