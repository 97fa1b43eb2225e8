import { newTokens, prefillSeconds, queueSeconds, STEP_TOKENS } from '../../latency/prefill-cost-model.ts'
import { adapterSeconds, DEFAULT_LOADING_COSTS, loadSeconds } from '../../latency/loading-costs.ts'
import { type OptionValues, type PolicyKind, readOptions } from '../policy-options.ts'
import { type Candidate, definePolicy, type RouteRequest } from '../policy.ts'
import { CostTable } from '../cost-table.ts'
import { sortWithinTolerance } from '../sort-within-tolerance.ts'
import { expectedQueued, pressureOf } from '../queue-pressure.ts'
import { softmax } from '../softmax.ts'

const options = {
  decodeWeight: {
    default: 0.05,
    min: 0,
    max: 10,
    doc:
      'Weight of a second of decode, and of a second by which the running streams are delayed, against a second ' +
      'before the first token.',
  },
  expectedOutputTokens: {
    default: 256,
    min: 0,
    max: 1e6,
    doc:
      'Most output tokens that are expected of a request without its own `expected_output_tokens`. Expected is the ' +
      'mean of the pool’s responses.',
  },
  workWeight: {
    default: 1,
    min: 0,
    max: 10,
    doc:
      'Weight of the delay that new prefill work causes for other requests. The delay grows with the queues, so ' +
      'that a full fleet saves work.',
  },
  barrierS: {
    default: 0.1,
    min: 0,
    max: 60,
    doc:
      'Seconds x k/(1-k), where k is the share of KV memory that live blocks would use, up to 0.98: avoids full ' +
      'engines. Beyond, the time until running requests have freed the memory is added.',
  },
  recentShare: {
    default: 0.02,
    min: 0,
    max: 1,
    doc: 'Weight of the engine’s recent prefill work, which rotates new prompts in an idle fleet.',
  },
  hostTokenUs: {
    default: DEFAULT_LOADING_COSTS.hostTokenUs,
    min: 0,
    max: 1e6,
    doc: 'Microseconds to load one cached token from host memory.',
  },
  diskTokenUs: {
    default: DEFAULT_LOADING_COSTS.diskTokenUs,
    min: 0,
    max: 1e6,
    doc: 'Microseconds to load one cached token from disk.',
  },
  remoteTokenUs: {
    default: DEFAULT_LOADING_COSTS.remoteTokenUs,
    min: 0,
    max: 1e6,
    doc: 'Microseconds to load one cached token from remote storage.',
  },
  adapterLoadS: {
    default: DEFAULT_LOADING_COSTS.adapterLoadS,
    min: 0,
    max: 600,
    doc: 'Seconds to load an adapter that is not loaded.',
  },
  adapterFullS: {
    default: DEFAULT_LOADING_COSTS.adapterFullS,
    min: 0,
    max: 600,
    doc: 'Seconds of waiting if the engine already runs its maximum number of adapters.',
  },
  slowStart: {
    default: 1,
    min: 0,
    max: 100,
    doc: 'Additional prefill time assumed for a new engine (1: doubled), decreasing while it warms up.',
  },
  indifferenceS: {
    default: 0.005,
    min: 0,
    max: 10,
    doc:
      'Engines within this cost of the best, and with as much of the prompt cached, are used in rotation. An ' +
      'imperceptible difference must not starve one of them.',
  },
  temperature: {
    default: 0,
    min: 0,
    max: 10,
    doc: 'Softmax temperature over the range of costs. 0: the cheapest engine.',
  },
} as const

/** Divisor for engines of weight 0, which are the last resort. */
const MIN_WEIGHT = 1e-6

type Values = OptionValues<typeof options>
const needs = [
  'rttS',
  'queuedPrefills',
  'usualQueuedPrefills',
  'queuedPrefillTokens',
  'queuedPrefillS',
  'placeWaitS',
  'delayS',
  'laterS',
  'costModel',
  'confidence',
  'cachedTokens',
  'slowTokens',
  'itlS',
  'addedItlS',
  'requests',
  'foreignRequests',
  'activeBlocks',
  'newActiveBlocks',
  'liveTokens',
  'liveSharers',
  'capacityBlocks',
  'adapterFit',
  'recentNewTokens',
  'warmth',
] as const
type PredictedCandidate = Candidate<(typeof needs)[number]>

const costTable = new CostTable([
  'network_s',
  'queued_s',
  'prefill_s',
  'load_s',
  'adapter_s',
  'delay_s',
  'later_s',
  'taken_s',
  'decode_s',
  'streams_s',
  'barrier_s',
  'recent_s',
  'slow_start',
  'cached_tokens',
  'potential_blocks',
  'confidence',
])

/**
 * Cost of an engine in seconds; the lowest wins:
 *
 *     cost = ((rtt + W + s + load + adapter + delay + x) * slow + decodeWeight * (d + r) + barrier + recent) / weight
 *
 * - `rtt` network round trip; `W` queued prefill work (pool/README.md); `s` prefill of the uncached tokens
 * - `load` cached tokens of slower tiers, `hostTokenUs`, `diskTokenUs`, `remoteTokenUs` each
 * - `adapter` 0, or `adapterLoadS` / `adapterFullS` if the adapter must be loaded / has no room
 * - `delay` what the engine's steps add. The sum up to here and `later`, the usual delay by prompts that arrive later,
 *   is the predicted time to the first token that is reported. `later` has no price: those prompts get decisions of
 *   their own, which would give up caches if this one avoided queues twice (docs/decisions/predicted-cost.md)
 * - `x` externality: delay of other requests, `workWeight * (pressure(q, q_e) * (s - c) + (MIN_COPY_COST +
 *   pressure(q_e, q_e) - u / (1 + u)) * c + step + place)`, where `q_e` is the engine's number of queued prefills, `q`
 *   the one expected from the mean of all engines and the engine's usual share of it, `c` the part of `s` that computes
 *   blocks which live requests on other engines hold, `u` the number of later requests that such a copy serves, `step`
 *   the delay of the prompts that share its engine step, and `place` the wait for one of the engine's places: those who
 *   come later wait as much longer
 * - `slow` 1 + `slowStart` * (1 - warmth); `d` seconds of decode for the expected output tokens; `r` seconds by which
 *   all running streams are delayed: by the prefill, and by longer steps while the request decodes
 * - `barrier` `barrierS` * k / (1 - k) for the share k of KV blocks in use, up to 0.98, then the wait for memory;
 *   `recent` decayed recent prefill work, a tie-breaker
 *
 * Sources: GORGO (arXiv 2602.11688) for network, queue and prefill; smetric and least_load of vllm-router and SMG.
 */
export const predicted: PolicyKind = {
  name: 'predicted',
  doc:
    'Lowest expected seconds: network, queued and new prefill work by the engine’s learned cost model, loads ' +
    'from slower tiers, decode interference, memory pressure.',
  source: 'Firstlight; terms after GORGO (2602.11688), smetric and least_load of vllm-router and SMG',
  options,
  create(configured) {
    const values = readOptions(options, configured)
    return definePolicy({
      name: 'predicted',
      needs,
      rank(request, candidates, random) {
        fillCosts(request, candidates, values)
        const isTie = keepsCache(request, candidates, values.indifferenceS * TIE_CACHE_SHARE)
        return softmax(
          sortWithinTolerance(costTable, { tolerance: values.indifferenceS, isTie }),
          values.temperature,
          'range',
          random,
        )
      },
    })
  },
}

/** Share of `indifferenceS` that a cache hit may save and still be ignored among tied engines. */
const TIE_CACHE_SHARE = 0.2

/** Whether a tied engine keeps the cache hit of the best one, up to `worthS` seconds of prefill. */
function keepsCache(
  { promptTokens }: RouteRequest,
  candidates: readonly PredictedCandidate[],
  worthS: number,
): (place: number, best: number) => boolean {
  const prefillS = ({ costModel }: PredictedCandidate, { cachedTokens }: PredictedCandidate) =>
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

/** Cost per second of prefill that copies blocks which another engine has, while no request waits. */
const MIN_COPY_COST = 0.1

/**
 * Largest number of leading tokens of the prompt that live requests hold on any engine. Computing them on another
 * engine is no wasted work, because the next request with the same prefix finds a copy there.
 */
function maxLiveTokens(candidates: readonly PredictedCandidate[]): number {
  let max = 0
  for (const { liveTokens } of candidates) max = Math.max(max, liveTokens)
  return max
}

/** Time in which the users of a copy pay for it, in durations of a request. */
const COPY_DURATIONS = 2

/**
 * Expected number of further requests that a copy of the `live` tokens on one more engine would serve: the live
 * requests that hold them, divided among the engines, come again for each duration of a request.
 */
function copyUsers(candidates: readonly PredictedCandidate[], live: number): number {
  let sharers = 0
  let holders = 0
  for (const { liveTokens, liveSharers, cachedTokens } of candidates) {
    if (liveTokens === live) sharers += liveSharers
    if (liveTokens === live || cachedTokens >= live) holders += 1
  }
  return (COPY_DURATIONS * Math.max(0, sharers - 1)) / Math.max(1, holders)
}

/** What the price of new work needs of all engines. */
interface Fleet {
  /** Queued prefills of the average engine: now, and usually. */
  readonly queued: number
  readonly usual: number
  /** Further requests that a copy would serve. */
  readonly users: number
}

function fleetOf(candidates: readonly PredictedCandidate[], live: number): Fleet {
  const count = Math.max(1, candidates.length)
  let queued = 0
  let usual = 0
  for (const { queuedPrefills, usualQueuedPrefills } of candidates) {
    queued += queuedPrefills
    usual += usualQueuedPrefills
  }
  return { queued: queued / count, usual: usual / count, users: copyUsers(candidates, live) }
}

/** Half of a step: what a long queue fills of the step that both share, and a long prompt finds free, on average. */
const SHARED_STEP_TOKENS = STEP_TOKENS / 2

/**
 * Seconds by which the prompt delays those that wait on the engine. Engines send the first tokens of all prompts of a
 * step at its end, so a prompt delays those before it in its first step by its part of that step. The delay does not
 * fall at the length where a queue needs a second step: the engine with the longer queue would then be the cheaper one.
 */
function sameStepS(engine: PredictedCandidate, promptTokens: number): number {
  const { queuedPrefills, queuedPrefillTokens, costModel, cachedTokens } = engine
  if (queuedPrefills === 0) return 0
  const size = { promptTokens, cachedTokens }
  const sharers = queuedPrefills * Math.min(1, SHARED_STEP_TOKENS / Math.max(1, queuedPrefillTokens))
  return sharers * queueSeconds(costModel, size) * Math.min(1, SHARED_STEP_TOKENS / Math.max(1, newTokens(size)))
}

/**
 * Seconds by which the prefill of the request delays others, less what later requests save by the copy. A copy delays
 * only requests that wait on this engine.
 * @param lastingS part of the prefill that copies blocks which live requests hold elsewhere
 */
function delayOfOthersS(
  engine: PredictedCandidate,
  { queued: mean, usual, users }: Fleet,
  prefillS: number,
  lastingS: number,
): number {
  const { queuedPrefills, usualQueuedPrefills } = engine
  const queued = expectedQueued(mean, usualQueuedPrefills, usual)
  const copyS = (MIN_COPY_COST + pressureOf(queuedPrefills, queuedPrefills) - users / (1 + users)) * lastingS
  return pressureOf(queued, queuedPrefills) * (prefillS - lastingS) + copyS
}

/**
 * Seconds by which the request delays the running streams, all together: they stand still during its prefill, and all
 * their steps are longer while it decodes.
 */
function streamsS(engine: PredictedCandidate, prefillS: number, outputTokens: number): number {
  const { requests, foreignRequests, queuedPrefills, addedItlS } = engine
  const running = Math.max(0, requests + foreignRequests - queuedPrefills)
  return running * (prefillS + outputTokens * addedItlS)
}

function fillCosts(request: RouteRequest, candidates: readonly PredictedCandidate[], values: Values): void {
  const { promptTokens } = request
  const { costs, terms } = costTable.reset(candidates.length)
  const live = maxLiveTokens(candidates)
  const fleet = fleetOf(candidates, live)
  const outputTokens =
    request.expectedOutputTokens ?? Math.min(request.usualOutputTokens ?? Infinity, values.expectedOutputTokens)
  for (let place = 0; place < candidates.length; place++) {
    const engine = candidates[place]!
    const prefillS = prefillSeconds(engine.costModel, { promptTokens, cachedTokens: engine.cachedTokens })
    const loadS = loadSeconds(engine.slowTokens, values)
    const adapterS = adapterSeconds(engine.adapterFit, values)
    const ttftS = engine.rttS + engine.queuedPrefillS + prefillS + loadS + adapterS + engine.delayS
    const potential = engine.activeBlocks + engine.newActiveBlocks
    const outputS = outputTokens * engine.itlS
    const decodeS = values.decodeWeight * outputS
    const lastingS =
      engine.liveTokens >= 0 && live > engine.cachedTokens
        ? prefillS - prefillSeconds(engine.costModel, { promptTokens, cachedTokens: live })
        : 0
    const externalityS =
      delayOfOthersS(engine, fleet, prefillS, lastingS) + sameStepS(engine, promptTokens) + engine.placeWaitS
    const takenS = values.workWeight * externalityS
    const delayedS = values.decodeWeight * streamsS(engine, prefillS, outputTokens)
    const barrierS = memoryS(potential / engine.capacityBlocks, outputS, values.barrierS)
    const recentS = values.recentShare * engine.costModel.perTokenS * engine.recentNewTokens
    const slowness = 1 + values.slowStart * (1 - engine.warmth)
    costs[place] =
      ((ttftS + takenS) * slowness + decodeS + delayedS + barrierS + recentS) / Math.max(engine.weight, MIN_WEIGHT)
    terms.network_s[place] = engine.rttS
    terms.queued_s[place] = engine.queuedPrefillS
    terms.prefill_s[place] = prefillS
    terms.load_s[place] = loadS
    terms.adapter_s[place] = adapterS
    terms.delay_s[place] = engine.delayS
    terms.later_s[place] = engine.laterS
    terms.taken_s[place] = takenS
    terms.decode_s[place] = decodeS
    terms.streams_s[place] = delayedS
    terms.barrier_s[place] = barrierS
    terms.recent_s[place] = recentS
    terms.slow_start[place] = slowness
    terms.cached_tokens[place] = engine.cachedTokens
    terms.potential_blocks[place] = potential
    terms.confidence[place] = engine.confidence
  }
}

/** Share of KV memory from which requests wait for memory. */
const FULL = 0.98

/** Limit of the wait for memory, seconds: a longer queue is counted as queued work. */
const MAX_MEMORY_WAIT_S = 60

/**
 * Seconds for a share of KV memory in use: the drain time of an M/M/1 queue, as a preference for engines with room, and
 * beyond full memory the wait for it. Running requests free the whole memory once in the time of an output, so what
 * exceeds it waits for as many outputs. It counts twice, as a wait for a place does: those who come later wait as much
 * longer. Without this bound the term outweighs every queue once all engines are full.
 */
function memoryS(share: number, outputS: number, barrierS: number): number {
  if (barrierS === 0) return 0
  if (!(share >= FULL)) return (barrierS * share) / (1 - share)
  return (barrierS * FULL) / (1 - FULL) + 2 * Math.min(MAX_MEMORY_WAIT_S, (share - FULL) * outputS)
}
