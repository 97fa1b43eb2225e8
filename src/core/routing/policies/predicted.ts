import { prefillSeconds } from '../../latency/cost-model.ts'
import { TIER_TOKEN_US } from '../../latency/profiles.ts'
import { type OptionValues, type PolicyKind, readOptions } from '../options.ts'
import { type Candidate, definePolicy, type RouteRequest } from '../policy.ts'
import { CostTable, sortWithinTolerance } from '../cost-table.ts'
import { softmax } from '../softmax.ts'

const options = {
  decodeWeight: {
    default: 0.05,
    min: 0,
    max: 10,
    doc: 'What a second of the answer’s own decode time counts against a second before its first token.',
  },
  expectedOutputTokens: { default: 256, min: 0, max: 1e6, doc: 'Output expected of a request that does not say.' },
  workWeight: {
    default: 1,
    min: 0,
    max: 10,
    doc: 'What new prefill work costs those who come later, against the request’s own wait; grows with the queues, so that a full fleet saves work.',
  },
  barrierS: {
    default: 0.1,
    min: 0,
    max: 60,
    doc: 'Seconds x k/(1-k), k being the share of KV memory live blocks would take: keeps engines from filling up.',
  },
  recentShare: {
    default: 0.05,
    min: 0,
    max: 1,
    doc: 'Share of the engine’s recent work that still counts, so that an idle fleet takes turns.',
  },
  hostTokenUs: {
    default: TIER_TOKEN_US.host,
    min: 0,
    max: 1e6,
    doc: 'Microseconds to load one cached token from host memory.',
  },
  diskTokenUs: {
    default: TIER_TOKEN_US.disk,
    min: 0,
    max: 1e6,
    doc: 'Microseconds to load one cached token from disk.',
  },
  remoteTokenUs: {
    default: TIER_TOKEN_US.remote,
    min: 0,
    max: 1e6,
    doc: 'Microseconds to load one cached token from elsewhere.',
  },
  adapterLoadS: { default: 0.5, min: 0, max: 600, doc: 'Seconds to load an adapter the engine does not hold.' },
  adapterFullS: {
    default: 5,
    min: 0,
    max: 600,
    doc: 'Seconds to wait for room when the engine already runs as many adapters as it may.',
  },
  slowStart: {
    default: 1,
    min: 0,
    max: 100,
    doc: 'A new engine’s prefill is taken to last this much longer at first (1: doubled), fading while it warms up.',
  },
  indifferenceS: {
    default: 0.005,
    min: 0,
    max: 10,
    doc: 'Engines whose cost is no more than this above the best, and that hold as much of the prompt, take turns: a learned difference nobody feels must not starve one of them.',
  },
  temperature: {
    default: 0,
    min: 0,
    max: 10,
    doc: 'Softmax temperature over the range of costs. 0: the cheapest engine.',
  },
} as const

/** An engine of weight 0 is the last resort, not a division by zero. */
const LEAST_WEIGHT = 1e-6

type Values = OptionValues<typeof options>
const needs = [
  'rttS',
  'queuedPrefills',
  'queuedPrefillS',
  'costModel',
  'confidence',
  'cachedTokens',
  'slowTokens',
  'decodeCostModel',
  'requests',
  'activeBlocks',
  'newActiveBlocks',
  'liveTokens',
  'capacityBlocks',
  'adapterFit',
  'recentWork',
  'warmth',
] as const
type Seen = Candidate<(typeof needs)[number]>

const costTable = new CostTable([
  'network_s',
  'queued_s',
  'prefill_s',
  'load_s',
  'adapter_s',
  'taken_s',
  'decode_s',
  'barrier_s',
  'recent_s',
  'slow_start',
  'cached_tokens',
  'potential_blocks',
  'confidence',
])

/** Where the first token is expected soonest, in seconds: the network, the queue, the prompt's own prefill, and what it disturbs. */
export const predicted: PolicyKind = {
  name: 'predicted',
  doc: 'Least expected seconds: network, queued and new prefill work by the engine’s learned law, loads from slower tiers, decode interference, memory pressure.',
  source: 'Firstlight; terms after GORGO (2602.11688), smetric and least_load of vllm-router and SMG',
  options,
  create(given) {
    const values = readOptions(options, given)
    return definePolicy({
      name: 'predicted',
      needs,
      rank(request, candidates, random) {
        price(request, candidates, values)
        const alike = keepsCache(request, candidates, values.indifferenceS * UNFELT_HIT)
        return softmax(
          sortWithinTolerance(costTable, { within: values.indifferenceS, alike }),
          values.temperature,
          'range',
          random,
        )
      },
    })
  },
}

/** Share of the indifference that a cache hit may be worth and still be given away for a turn. */
const UNFELT_HIT = 0.2

/** Taking turns must not cost a cache hit that saves anything worth keeping. */
function keepsCache(
  { promptTokens }: RouteRequest,
  candidates: readonly Seen[],
  worthS: number,
): (place: number, best: number) => boolean {
  const prefillS = ({ costModel }: Seen, { cachedTokens }: Seen) =>
    prefillSeconds(costModel, { promptTokens, cachedTokens })
  return (place, bestPlace) => {
    const candidate = candidates[place]!
    const best = candidates[bestPlace]!
    return (
      candidate.cachedTokens >= best.cachedTokens ||
      prefillS(candidate, candidate) - prefillS(candidate, best) <= worthS
    )
  }
}

/** The queue of two that this is: beyond it stands a burst, which ends, and not a load that stays. */
const MOST_PRESSURE = 8

/** An engine's own queue against the fleet's: work there delays its own queue, and then everybody's, because others make way. */
const OWN_SHARE = 0.25

/** A second of work for a copy that siblings will use, where nobody waits: who would be served no sooner makes none. */
const LEAST_COPY_PRICE = 0.1

/**
 * How many requests a second of new work delays. In a queue with n waiting it costs all of them together
 * dL/dρ = 1/(1 - ρ)² = (1 + n)² seconds, its own one included. Without it a fleet under pressure trades its caches for
 * short queues, does more work, and gets longer queues. Counted, not derived from seconds: a prompt that is long where
 * it is not cached would make any queue look short.
 * @param mean prompts without a first token, by engine; @param own those of the engine.
 */
function pressureOf(mean: number, own: number): number {
  return Math.min(MOST_PRESSURE, (1 + mean) * (1 + mean + OWN_SHARE * (own - mean)) - 1)
}

function meanQueued(candidates: readonly Seen[]): number {
  let queued = 0
  for (const { queuedPrefills } of candidates) queued += queuedPrefills
  return queued / Math.max(1, candidates.length)
}

/**
 * Leading tokens of the prompt that live requests hold, on whichever engine: siblings of it. Where another engine computes
 * them as well they are no lost work, for the next sibling finds them there; not seen so, a crowd that asks the same thing
 * would make the queue whose length keeps it together.
 */
function mostLive(candidates: readonly Seen[]): number {
  let most = 0
  for (const { liveTokens } of candidates) most = Math.max(most, liveTokens)
  return most
}

function price(request: RouteRequest, candidates: readonly Seen[], values: Values): void {
  const { costs, terms } = costTable.reset(candidates.length)
  const queued = meanQueued(candidates)
  const live = mostLive(candidates)
  const outputTokens = request.expectedOutputTokens ?? values.expectedOutputTokens
  for (let place = 0; place < candidates.length; place++) {
    const engine = candidates[place]!
    const prefillS = prefillSeconds(engine.costModel, {
      promptTokens: request.promptTokens,
      cachedTokens: engine.cachedTokens,
    })
    const { host, disk, remote } = engine.slowTokens
    const loadS = (host * values.hostTokenUs + disk * values.diskTokenUs + remote * values.remoteTokenUs) / 1e6
    const adapterS = engine.adapterFit > 0 ? 0 : engine.adapterFit === 0 ? values.adapterLoadS : values.adapterFullS
    const ttftS = engine.rttS + engine.queuedPrefillS + prefillS + loadS + adapterS
    const potential = engine.activeBlocks + engine.newActiveBlocks
    const tokenS =
      engine.decodeCostModel.baseS +
      engine.decodeCostModel.perRequestS * (engine.requests + 1) +
      engine.decodeCostModel.perBlockS * potential
    const decodeS = values.decodeWeight * outputTokens * tokenS
    // A copy for siblings delays those who wait on this engine, and nobody else.
    const own = engine.queuedPrefills
    const lastingS =
      engine.liveTokens >= 0 && live > engine.cachedTokens
        ? prefillS - prefillSeconds(engine.costModel, { promptTokens: request.promptTokens, cachedTokens: live })
        : 0
    const takenS =
      values.workWeight *
      (pressureOf(queued, own) * (prefillS - lastingS) + (LEAST_COPY_PRICE + pressureOf(own, own)) * lastingS)
    const barrierS = values.barrierS * barrier(potential / engine.capacityBlocks)
    const recentS = values.recentShare * engine.costModel.perTokenS * engine.recentWork
    const slowness = 1 + values.slowStart * (1 - engine.warmth)
    costs[place] = ((ttftS + takenS) * slowness + decodeS + barrierS + recentS) / Math.max(engine.weight, LEAST_WEIGHT)
    terms.network_s[place] = engine.rttS
    terms.queued_s[place] = engine.queuedPrefillS
    terms.prefill_s[place] = prefillS
    terms.load_s[place] = loadS
    terms.adapter_s[place] = adapterS
    terms.taken_s[place] = takenS
    terms.decode_s[place] = decodeS
    terms.barrier_s[place] = barrierS
    terms.recent_s[place] = recentS
    terms.slow_start[place] = slowness
    terms.cached_tokens[place] = engine.cachedTokens
    terms.potential_blocks[place] = potential
    terms.confidence[place] = engine.confidence
  }
}

/** Drain time of an M/M/1 queue at load k. Full and over-full engines stay comparable: the fuller costs more. */
function barrier(share: number): number {
  const FULL = 0.98
  return share < FULL ? share / (1 - share) : FULL / (1 - FULL) + (share - FULL) / (1 - FULL) ** 2
}
