/**
 * Order of clusters, from cached digests and without remote calls. Pure: equal views, key and draws give an equal
 * order.
 */
import type { PoolDigest } from '../contract/pool-digest.ts'
import { hashPair, hashText } from './placement-hash.ts'
import type { Random } from './policy.ts'

export interface ClusterView {
  readonly id: string
  /** Configured share of traffic. */
  readonly weight: number
  /** Last digest of the pool; null: none. */
  readonly digest: PoolDigest | null
  /** Expected TTFT of this prompt; absent: unknown. */
  readonly estimate?: ClusterEstimate | null
  /** Age of the digest, milliseconds. */
  readonly ageMs: number
  /** Unreachable at the last attempt, or without available engines. */
  readonly unreachable: boolean
}

/** Expected times of one prompt in one cluster, seconds. */
export interface ClusterEstimate {
  /** Waiting time; discounted with the age of the digest. */
  readonly waitS: number
  /** Network round trip. */
  readonly roundTripS: number
  /** Prefill, and the delay of later prompts. */
  readonly workS: number
  /** Prefill without any cached token. */
  readonly coldS: number
  /** Confidence of the two, 0..1. */
  readonly confidence: number
}

/** A cluster in its place. */
export interface ClusterRank {
  readonly id: string
  /** Unavailable: tried only after all others refused. */
  readonly unavailable: boolean
  /**
   * Sort value: seconds if any cluster has an estimate, else load per unit of available engine weight. null: unknown,
   * replaced by the mean of the others.
   */
  readonly cost: number | null
  /** Predicted time to the first token, s. null: no cluster has an estimate, or this one has none. */
  readonly ttftS: number | null
  /** Share of traffic after cost and age of the digest. */
  readonly share: number
}

/** Number of running requests that delay a new one like a second of queued prefill. */
const REQUESTS_PER_QUEUED_S = 4

/** Age at which a digest has half its weight, milliseconds. */
const HALF_WEIGHT_MS = 10_000

/** Load scale: two requests per engine reduce the score of a cluster to a ninth of an idle one. */
const LOAD_POWER = 2

/** TTFT difference, absolute and as a share of the lowest, that reduces the score by a factor of e. */
const SLACK_S = 0.01

const SLACK_SHARE = 0.2

const TWO_TO_32 = 2 ** 32

/**
 * Orders clusters. Available clusters are drawn with probability proportional to weight and score: by rendezvous
 * hashing of `key`, so that a conversation finds its cache again while clusters are equal, or at random if `key` is
 * null. The smooth score avoids that all edges rush to the same best cluster.
 */
export function rankClusters(views: readonly ClusterView[], key: number | null, random: Random): ClusterRank[] {
  const unavailable = views.map(isUnavailable)
  const hasEstimates = views.some(({ estimate }, at) => estimate && !unavailable[at])
  const costs = hasEstimates ? ttftCosts(views, unavailable) : loadCosts(views, unavailable)
  const known = costs.filter((cost, at) => cost !== null && !unavailable[at]) as number[]
  const mean = meanOf(known)
  const min = known.length === 0 ? 0 : Math.min(...known)
  const ranked = views.map((view, at) => {
    const cost = costs[at]!
    const costOrMean = cost ?? mean
    // As a logarithm, so that two very low scores remain distinct.
    const logShare =
      Math.log(view.weight) +
      (hasEstimates
        ? (min - costOrMean) / (SLACK_S + SLACK_SHARE * min)
        : -LOAD_POWER * Math.log(1 + mean + (costOrMean - mean) * ageWeight(view)))
    const uniform = key === null ? random() : (hashPair(key, hashText(view.id)) + 0.5) / TWO_TO_32
    // Exponential race: the first arrival is distributed in proportion to the score.
    return {
      rank: {
        id: view.id,
        unavailable: unavailable[at]!,
        cost,
        ttftS: hasEstimates ? (cost ?? null) : null,
        share: Math.exp(logShare),
      },
      lead: logShare - Math.log(-Math.log(1 - uniform)),
    }
  })
  return ranked
    .sort(
      (one, other) =>
        Number(one.rank.unavailable) - Number(other.rank.unavailable) ||
        (one.lead === other.lead ? 0 : other.lead - one.lead),
    )
    .map(({ rank }) => rank)
}

const ageWeight = ({ ageMs }: ClusterView): number => 2 ** (-Math.max(0, ageMs) / HALF_WEIGHT_MS)

const meanOf = (numbers: readonly number[]): number =>
  numbers.length === 0 ? 0 : numbers.reduce((sum, one) => sum + one, 0) / numbers.length

/** Unknown is not unavailable: a new cluster must get its first request. */
function isUnavailable({ digest, unreachable }: ClusterView): boolean {
  return (
    unreachable || (digest !== null && digest.engines.length > 0 && digest.engines.every(({ available }) => !available))
  )
}

/** Seconds to the first token; null: unknown. */
function ttftCosts(views: readonly ClusterView[], unavailable: readonly boolean[]): (number | null)[] {
  const estimates = views.flatMap(({ estimate }, at) => (estimate && !unavailable[at] ? [estimate] : []))
  const meanWaitS = meanOf(estimates.map(({ waitS }) => waitS))
  const known = estimates.reduce((sum, { confidence }) => sum + confidence, 0)
  const meanColdS =
    known > 0
      ? estimates.reduce((sum, { coldS, confidence }) => sum + coldS * confidence, 0) / known
      : meanOf(estimates.map(({ coldS }) => coldS))
  return views.map((view) => {
    if (!view.estimate) return null
    const { waitS, roundTripS, workS, coldS, confidence } = view.estimate
    // Unknown values are replaced by those of the others. Otherwise the cluster would get no request that reveals them.
    const pace = coldS > 0 ? (meanColdS + (coldS - meanColdS) * confidence) / coldS : 1
    return roundTripS + workS * pace + meanWaitS + (waitS - meanWaitS) * ageWeight(view)
  })
}

const loadCosts = (views: readonly ClusterView[], unavailable: readonly boolean[]): (number | null)[] =>
  views.map(({ digest }, at) => (unavailable[at] ? null : loadOf(digest)))

/** Load: requests and queued prefill per unit of available engine weight; null: no digest, or no available engine. */
function loadOf(digest: PoolDigest | null): number | null {
  if (digest === null) return null
  let weight = 0
  let load = 0
  for (const engine of digest.engines) {
    if (!engine.available) continue
    weight += engine.weight
    load += engine.requests + engine.queuedPrefillS * REQUESTS_PER_QUEUED_S
  }
  return weight === 0 ? null : load / weight
}
