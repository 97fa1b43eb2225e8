import type { Admission, ClusterDigest, Placement } from '../core/cluster/contract.ts'
import { type ClusterView, rankClusters } from '../core/routing/clusters.ts'
import { fallbackPlacement, placementKey } from '../core/routing/fallback.ts'
import type { Ports, RequestScope } from '../ports.ts'
import type { Exchange, PoolRoute } from './exchange.ts'
import type { Digests } from './place.ts'

export interface DigestCacheOptions {
  readonly ports: Pick<Ports, 'cluster' | 'now' | 'random' | 'log'>
  /** A digest older than this is asked for again, in the background. */
  readonly freshMs?: number
  /** Pools remembered; the one asked for longest ago goes first. */
  readonly limit?: number
}

const FRESH_MS = 2_000
const LIMIT = 256
/** On Workers a request's context may die with its question: the answer is then waited for no longer. */
const LOST_AFTER_MS = 10_000
/** A cluster whose object did not answer is tried last for this long. */
const DARK_MS = 10_000

interface Entry {
  digest: ClusterDigest | null
  /** When the digest came, by our own clock: the object's may differ. */
  receivedAt: number
  askedAt: number | null
  failedAt: number | null
}

/**
 * What this isolate or process last heard of each cluster's pool. Never on a request's path: a stale digest is used
 * while a newer one is fetched behind the response; with none at all a cluster counts as neutral.
 */
export class DigestCache implements Digests {
  readonly #ports: DigestCacheOptions['ports']
  readonly #freshMs: number
  readonly #limit: number
  readonly #entries = new Map<string, Entry>()
  /** The name behind the last entry. */
  #newest: string | null = null

  constructor({ ports, freshMs = FRESH_MS, limit = LIMIT }: DigestCacheOptions) {
    this.#ports = ports
    this.#freshMs = freshMs
    this.#limit = limit
  }

  order(exchange: Pick<Exchange, 'routes' | 'scope' | 'admission'>): readonly PoolRoute[] {
    const { routes } = exchange
    for (const route of routes) this.#refresh(route, exchange.scope)
    const [first] = routes
    if (first === undefined || routes.length === 1) return routes
    const byId = new Map(routes.map((route) => [nameOf(route.cluster.id, route.pool.model), route]))
    const ranks = rankClusters(
      [...byId].map(([id, route]) => this.#view(id, route)),
      placementKey(exchange.admission(first)),
      () => this.#ports.random(),
    )
    return ranks.map(({ id }) => byId.get(id)!)
  }

  latest(cluster: string, pool: string): ClusterDigest | null {
    return this.#entries.get(nameOf(cluster, pool))?.digest ?? null
  }

  fallback(admission: Admission, { cluster, pool }: PoolRoute): Placement | null {
    this.failed(cluster.id, pool.model)
    return fallbackPlacement(admission, pool.engines, this.latest(cluster.id, pool.model))
  }

  /** The object could not be reached: for a while others are tried first. */
  failed(cluster: string, pool: string): void {
    this.#entry(nameOf(cluster, pool)).failedAt = this.#ports.now()
  }

  #view(id: string, route: PoolRoute): ClusterView {
    const { digest, receivedAt, failedAt } = this.#entry(id)
    const now = this.#ports.now()
    return { id, weight: route.cluster.weight, digest, ageMs: now - receivedAt, unreachable: failedAt !== null && now - failedAt < DARK_MS }
  }

  #refresh({ cluster, pool }: PoolRoute, scope: RequestScope): void {
    const entry = this.#entry(nameOf(cluster.id, pool.model))
    const now = this.#ports.now()
    const isAsked = entry.askedAt !== null && now - entry.askedAt < LOST_AFTER_MS
    if (isAsked || (entry.digest !== null && now - entry.receivedAt < this.#freshMs)) return
    entry.askedAt = now
    scope.background(this.#fetch(cluster.id, pool.model, entry))
  }

  async #fetch(cluster: string, pool: string, entry: Entry): Promise<void> {
    try {
      const digest = await this.#ports.cluster(cluster, pool).digest()
      entry.askedAt = null
      entry.failedAt = null
      if (!isNewer(digest, entry.digest)) return
      entry.digest = digest
      entry.receivedAt = this.#ports.now()
    } catch (error) {
      // `askedAt` stays: an object that does not answer is asked again only after a pause.
      entry.failedAt = this.#ports.now()
      this.#ports.log.warn('digest_unreachable', { cluster, pool, error: String(error) })
    }
  }

  /** Also marks it as the latest asked for. */
  #entry(id: string): Entry {
    // Asked for again and again where there is one pool.
    if (id === this.#newest) return this.#entries.get(id)!
    this.#newest = id
    const entry = this.#entries.get(id) ?? { digest: null, receivedAt: 0, askedAt: null, failedAt: null }
    this.#entries.delete(id)
    this.#entries.set(id, entry)
    if (this.#entries.size > this.#limit) this.#entries.delete(this.#entries.keys().next().value!)
    return entry
  }
}

/** Answers may overtake each other; another epoch is another incarnation, whose numbers start anew. */
function isNewer(digest: ClusterDigest, known: ClusterDigest | null): boolean {
  if (known === null) return true
  return digest.epoch === known.epoch ? digest.seq > known.seq : digest.at >= known.at
}

/** Neither name may hold a line break. */
function nameOf(cluster: string, pool: string): string {
  return `${cluster}\n${pool}`
}
