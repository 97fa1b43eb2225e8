/**
 * Which cluster to ask first, from what was heard of them and with no remote call. Pure: the same views, key and draws give
 * the same order.
 */
import type { ClusterDigest } from '../contract/contract.ts'
import { hashPair, hashText } from './rendezvous.ts'
import type { Random } from './policy.ts'

export interface ClusterView {
  readonly id: string
  /** Share of traffic as configured. */
  readonly weight: number
  /** Last digest of the pool; null: none came yet. */
  readonly digest: ClusterDigest | null
  /** What this prompt may expect there; absent: nothing is known of that. */
  readonly expected?: Expected | null
  /** Age of what was heard, milliseconds. */
  readonly ageMs: number
  /** It could not be reached when last asked, or nobody there may be given a prompt. */
  readonly unreachable: boolean
}

/** Seconds, of one prompt in one cluster. */
export interface Expected {
  /** It waits for others: old news are half believed. */
  readonly waitS: number
  /** The way there and back. */
  readonly wayS: number
  /** Its own prefill, and what that costs those behind it. */
  readonly workS: number
  /** The same, were nothing of it cached. */
  readonly coldS: number
  /** How far these two were learned, 0..1. */
  readonly confidence: number
}

export interface ClusterRank {
  readonly id: string
  /** Nobody there can serve, as far as is known: tried only when all others have refused. */
  readonly dark: boolean
  /** What it is compared by: seconds where any cluster says what to expect, else load per unit of available engine weight. null: unknown, taken for the mean of the others. */
  readonly cost: number | null
  /** Share of traffic after cost and age. */
  readonly appeal: number
}

/** A second of queued prefill keeps a newcomer waiting like this many running requests. */
const REQUESTS_PER_QUEUED_S = 4
/** News this old are half believed. */
const HALF_TRUST_MS = 10_000
/** Two requests an engine leave a ninth of an idle cluster's appeal: load beats affinity, noise does not. */
const LOAD_POWER = 2
/** Where a first token is expected later by this much, and by this share of the least, the appeal is e times less. */
const SLACK_S = 0.01
const SLACK_SHARE = 0.2

const TWO_TO_32 = 2 ** 32

/**
 * Clusters in the order they are to be tried. Among the bright ones each comes first in proportion to its weight and its
 * appeal: by rendezvous on `key`, so one prompt's followers meet their cache again while clusters stay alike, or by
 * chance when `key` is null. All edges lean away from a wait smoothly instead of rushing to the same best.
 */
export function rankClusters(views: readonly ClusterView[], key: number | null, random: Random): ClusterRank[] {
  const dark = views.map(isDark)
  const isExpecting = views.some(({ expected }, at) => expected && !dark[at])
  const costs = isExpecting ? secondsOf(views, dark) : loadsOf(views, dark)
  const known = costs.filter((cost, at) => cost !== null && !dark[at]) as number[]
  const mean = meanOf(known)
  const least = known.length === 0 ? 0 : Math.min(...known)
  const ranked = views.map((view, at) => {
    const cost = costs[at]!
    const believed = cost ?? mean
    // Its logarithm, that is: of two that are far behind, one is still ahead.
    const appeal =
      Math.log(view.weight) +
      (isExpecting
        ? (least - believed) / (SLACK_S + SLACK_SHARE * least)
        : -LOAD_POWER * Math.log(1 + mean + (believed - mean) * trustIn(view)))
    const uniform = key === null ? random() : (hashPair(key, hashText(view.id)) + 0.5) / TWO_TO_32
    // Exponential races: the first to arrive wins in proportion to its appeal.
    return {
      rank: { id: view.id, dark: dark[at]!, cost, appeal: Math.exp(appeal) },
      lead: appeal - Math.log(-Math.log(1 - uniform)),
    }
  })
  return ranked
    .sort(
      (one, other) =>
        Number(one.rank.dark) - Number(other.rank.dark) || (one.lead === other.lead ? 0 : other.lead - one.lead),
    )
    .map(({ rank }) => rank)
}

const trustIn = ({ ageMs }: ClusterView): number => 2 ** (-Math.max(0, ageMs) / HALF_TRUST_MS)

const meanOf = (numbers: readonly number[]): number =>
  numbers.length === 0 ? 0 : numbers.reduce((sum, one) => sum + one, 0) / numbers.length

/** Unknown is not dark: a cluster nobody has asked yet must get its first request. */
function isDark({ digest, unreachable }: ClusterView): boolean {
  return (
    unreachable || (digest !== null && digest.engines.length > 0 && digest.engines.every(({ available }) => !available))
  )
}

/** Seconds to the first token; null: it is not known. */
function secondsOf(views: readonly ClusterView[], dark: readonly boolean[]): (number | null)[] {
  const bright = views.flatMap(({ expected }, at) => (expected && !dark[at] ? [expected] : []))
  const meanWaitS = meanOf(bright.map(({ waitS }) => waitS))
  const known = bright.reduce((sum, { confidence }) => sum + confidence, 0)
  const meanAnewS =
    known > 0
      ? bright.reduce((sum, { coldS, confidence }) => sum + coldS * confidence, 0) / known
      : meanOf(bright.map(({ coldS }) => coldS))
  return views.map((view) => {
    if (!view.expected) return null
    const { waitS, wayS, workS, coldS, confidence } = view.expected
    // What it never showed is taken for what the others showed: or it would never be asked to show it.
    const pace = coldS > 0 ? (meanAnewS + (coldS - meanAnewS) * confidence) / coldS : 1
    return wayS + workS * pace + meanWaitS + (waitS - meanWaitS) * trustIn(view)
  })
}

const loadsOf = (views: readonly ClusterView[], dark: readonly boolean[]): (number | null)[] =>
  views.map(({ digest }, at) => (dark[at] ? null : loadOf(digest)))

/** Requests and queued prefill per unit of available engine weight; null: no engine to divide by, or no digest. */
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
