/**
 * Order of clusters, from cached digests and without remote calls. Pure: equal views, key and draws give an equal
 * order.
 */
import type { ClusterDigest, Admission } from '../contract/contract.ts'
import { hashPair, hashText } from './rendezvous.ts'
import type { Random } from './policy.ts'
import { PREFIX_KEY_BLOCKS } from '../pool/decide.ts'
import { placementKey } from './fallback.ts'
import { nextDepth } from './prefix-filter.ts'

/** Share of prompts above which a prefix is ubiquitous and no affinity key. */
const CROWD_SHARE = 1 / 8
/** Prompts assumed before the first one, all different. */
const BEFORE = 64
/** Count at which all counters are halved. */
const HALVED_AFTER = 512

/**
 * Affinity keys: the session, or the first blocks that are not shared by most prompts. Prompts with one key prefer one
 * cluster if clusters are equal. A system prompt sent by every client as key would route all to one cluster.
 */
export class AffinityKeys {
  readonly #counts = new Map<number, number>()
  #seen = 0

  /** Counts the prompt and returns its key. null: its prefix is ubiquitous. */
  keyOf(admission: Pick<Admission, 'id' | 'blocks' | 'session'>): number | null {
    const first = placementKey(admission)
    const { blocks, session } = admission
    const most = blocks.length >> 1
    if (session !== null || most === 0) return first
    this.#count()
    let key = first
    for (let depth = PREFIX_KEY_BLOCKS; this.#isCrowd(key); depth = nextDepth(depth)) {
      if (depth >= most) return null
      key = blocks[2 * (Math.min(most, nextDepth(depth)) - 1)]!
    }
    return key
  }

  #isCrowd(key: number): boolean {
    const count = (this.#counts.get(key) ?? 0) + 1
    this.#counts.set(key, count)
    return count > (BEFORE + this.#seen) * CROWD_SHARE
  }

  #count(): void {
    this.#seen += 1
    if (this.#seen < HALVED_AFTER) return
    this.#seen /= 2
    for (const [key, count] of this.#counts) {
      if (count < 2) this.#counts.delete(key)
      else this.#counts.set(key, count / 2)
    }
  }
}

export interface ClusterView {
  readonly id: string
  /** Configured share of traffic. */
  readonly weight: number
  /** Last digest of the pool; null: none. */
  readonly digest: ClusterDigest | null
  /** Expected TTFT of this prompt; absent: unknown. */
  readonly expected?: Expected | null
  /** Age of the digest, milliseconds. */
  readonly ageMs: number
  /** Unreachable at the last attempt, or without available engines. */
  readonly unreachable: boolean
}

/** Expected times of one prompt in one cluster, seconds. */
export interface Expected {
  /** Waiting time; discounted with the age of the digest. */
  readonly waitS: number
  /** Network round trip. */
  readonly wayS: number
  /** Prefill, and the delay of later prompts. */
  readonly workS: number
  /** Prefill without any cached token. */
  readonly coldS: number
  /** Confidence of the two, 0..1. */
  readonly confidence: number
}

export interface ClusterRank {
  readonly id: string
  /** Unavailable: tried only after all others refused. */
  readonly unavailable: boolean
  /**
   * Sort value: seconds if any cluster has an estimate, else load per unit of available engine weight. null: unknown,
   * replaced by the mean of the others.
   */
  readonly cost: number | null
  /** Share of traffic after cost and age of the digest. */
  readonly appeal: number
}

/** Number of running requests that delay a new one like a second of queued prefill. */
const REQUESTS_PER_QUEUED_S = 4
/** Age at which a digest has half its weight, milliseconds. */
const HALF_TRUST_MS = 10_000
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
  const isExpecting = views.some(({ expected }, at) => expected && !unavailable[at])
  const costs = isExpecting ? secondsOf(views, unavailable) : loadsOf(views, unavailable)
  const known = costs.filter((cost, at) => cost !== null && !unavailable[at]) as number[]
  const mean = meanOf(known)
  const least = known.length === 0 ? 0 : Math.min(...known)
  const ranked = views.map((view, at) => {
    const cost = costs[at]!
    const trusted = cost ?? mean
    // As a logarithm, so that two very low scores remain distinct.
    const appeal =
      Math.log(view.weight) +
      (isExpecting
        ? (least - trusted) / (SLACK_S + SLACK_SHARE * least)
        : -LOAD_POWER * Math.log(1 + mean + (trusted - mean) * trustIn(view)))
    const uniform = key === null ? random() : (hashPair(key, hashText(view.id)) + 0.5) / TWO_TO_32
    // Exponential race: the first arrival is distributed in proportion to the score.
    return {
      rank: { id: view.id, unavailable: unavailable[at]!, cost, appeal: Math.exp(appeal) },
      lead: appeal - Math.log(-Math.log(1 - uniform)),
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

const trustIn = ({ ageMs }: ClusterView): number => 2 ** (-Math.max(0, ageMs) / HALF_TRUST_MS)

const meanOf = (numbers: readonly number[]): number =>
  numbers.length === 0 ? 0 : numbers.reduce((sum, one) => sum + one, 0) / numbers.length

/** Unknown is not unavailable: a new cluster must get its first request. */
function isUnavailable({ digest, unreachable }: ClusterView): boolean {
  return (
    unreachable || (digest !== null && digest.engines.length > 0 && digest.engines.every(({ available }) => !available))
  )
}

/** Seconds to the first token; null: unknown. */
function secondsOf(views: readonly ClusterView[], unavailable: readonly boolean[]): (number | null)[] {
  const bright = views.flatMap(({ expected }, at) => (expected && !unavailable[at] ? [expected] : []))
  const meanWaitS = meanOf(bright.map(({ waitS }) => waitS))
  const known = bright.reduce((sum, { confidence }) => sum + confidence, 0)
  const meanAnewS =
    known > 0
      ? bright.reduce((sum, { coldS, confidence }) => sum + coldS * confidence, 0) / known
      : meanOf(bright.map(({ coldS }) => coldS))
  return views.map((view) => {
    if (!view.expected) return null
    const { waitS, wayS, workS, coldS, confidence } = view.expected
    // Unknown values are replaced by those of the others. Otherwise the cluster would get no request that reveals them.
    const pace = coldS > 0 ? (meanAnewS + (coldS - meanAnewS) * confidence) / coldS : 1
    return wayS + workS * pace + meanWaitS + (waitS - meanWaitS) * trustIn(view)
  })
}

const loadsOf = (views: readonly ClusterView[], unavailable: readonly boolean[]): (number | null)[] =>
  views.map(({ digest }, at) => (unavailable[at] ? null : loadOf(digest)))

/** Load: requests and queued prefill per unit of available engine weight; null: no digest, or no available engine. */
function loadOf(digest: ClusterDigest | null): number | null {
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
