/**
 * Which cluster to ask first, from cached digests and with no remote call. Pure: the same views, key and draws give
 * the same order.
 */
import type { ClusterDigest } from '../cluster/contract.ts'
import { hashPair, hashText } from './hash.ts'
import type { Random } from './policy.ts'

export interface ClusterView {
  readonly id: string
  /** Share of traffic as configured. */
  readonly weight: number
  /** Last digest of the pool; null: none came yet. */
  readonly digest: ClusterDigest | null
  /** Age of the digest, milliseconds. */
  readonly ageMs: number
  /** The object could not be reached when last asked. */
  readonly unreachable: boolean
}

export interface ClusterRank {
  readonly id: string
  /** Nobody there can serve, as far as is known: tried only when all others have refused. */
  readonly dark: boolean
  /** Load per unit of available engine weight; null: unknown, taken for the mean of the others. */
  readonly load: number | null
  /** Share of traffic after load and age. */
  readonly appeal: number
}

/** A second of queued prefill keeps a newcomer waiting like this many running requests. */
const REQUESTS_PER_QUEUED_S = 4
/** A digest this old is half believed. */
const HALF_TRUST_MS = 10_000
/** Two requests an engine leave a ninth of an idle cluster's appeal: load beats affinity, noise does not. */
const LOAD_POWER = 2

const TWO_TO_32 = 2 ** 32

/**
 * Clusters in the order they are to be tried. Among the bright ones each comes first in proportion to its weight and
 * its spare load: by rendezvous on `key`, so one prompt's followers meet their cache again while loads stay alike, or
 * by chance when `key` is null. All edges lean away from load smoothly instead of rushing to the same best.
 */
export function rankClusters(views: readonly ClusterView[], key: number | null, random: Random): ClusterRank[] {
  const loads = views.map((view) => ({ view, load: loadOf(view.digest), dark: isDark(view) }))
  const known = loads.filter(({ load, dark }) => load !== null && !dark).map(({ load }) => load!)
  const mean = known.length === 0 ? 0 : known.reduce((sum, load) => sum + load, 0) / known.length
  const ranked = loads.map(({ view, load, dark }) => {
    const trust = 2 ** (-Math.max(0, view.ageMs) / HALF_TRUST_MS)
    const believed = load === null ? mean : mean + (load - mean) * trust
    const appeal = view.weight / (1 + believed) ** LOAD_POWER
    const uniform = key === null ? random() : (hashPair(key, hashText(view.id)) + 0.5) / TWO_TO_32
    // Exponential races: the first to arrive wins in proportion to its appeal.
    return { rank: { id: view.id, dark, load, appeal }, arrival: -Math.log(1 - uniform) / appeal }
  })
  return ranked.sort((one, other) => Number(one.rank.dark) - Number(other.rank.dark) || one.arrival - other.arrival).map(({ rank }) => rank)
}

/** Unknown is not dark: a cluster nobody has asked yet must get its first request. */
function isDark({ digest, unreachable }: ClusterView): boolean {
  return unreachable || (digest !== null && digest.engines.length > 0 && digest.engines.every(({ available }) => !available))
}

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
