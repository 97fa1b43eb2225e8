import type { Admission } from '../../core/contract/admission.ts'
import type { PoolDigest } from '../../core/contract/pool-digest.ts'
import type { Placement } from '../../core/contract/placement.ts'
import type { RegionDigest } from '../../core/contract/region-digest.ts'
import { type ClusterRank, type ClusterView, rankClusters } from '../../core/routing/cluster-order.ts'
import { byPreference, type RegionPreference } from '../../core/routing/region-preference.ts'
import { AffinityKeys } from '../../core/routing/affinity-keys.ts'
import { fallbackPlacement } from '../../core/pool/decision/fallback-placement.ts'
import type { Ports } from '../../ports.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import { withTimeout } from '../../timeout.ts'
import type { Exchange } from '../exchange.ts'
import { poolOf, type PoolRoute } from '../pool-route.ts'
import { type Pass, passOverAll } from '../placement/placement-passes.ts'
import type { PoolDigests } from './pool-digests.ts'
import type { RequestSource } from '../request-source.ts'
import { headerOf } from '../headers.ts'
import { fetchRegionDigests, RegionUnavailable } from '../regions/region-digest-client.ts'
import type { RegionDigestResponse } from '../regions/region-digest-response.ts'
import { regionStatusOf } from '../regions/region-status.ts'
import type { RegionStatus } from '../../core/contract/region-status.ts'
import { RegionEstimator, type InFlightPrompt } from '../regions/region-estimator.ts'
import { hasPassed } from '../via.ts'

interface DigestCacheOptions {
  readonly ports: Pick<Ports, 'pool' | 'now' | 'random' | 'log' | 'origin'>
  /** Name of this gateway in `via`. */
  readonly via?: string
  /**
   * Fingerprint of how a pool's prompts are divided into blocks; equal numbers mean equal blocks. Absent: no choice
   * depends on it.
   */
  readonly fingerprintOf?: (route: PoolRoute) => number | null
  /** Age, ms, after which a digest is refreshed in the background. */
  readonly freshMs?: number
}

/** What the order of pools depends on. */
interface RoutedRequest
  extends Pick<Exchange, 'routes' | 'scope'>, Partial<Pick<Exchange, 'headers' | 'regionPreference'>> {
  readonly source: Pick<RequestSource, 'admission'>
}

const FRESH_MS = 2_000
/** Time, ms, after which a refresh counts as lost. On Workers it may end with the request that started it. */
const LOST_AFTER_MS = 10_000
/** Time, ms, for which a pool whose state did not answer is tried last. */
const UNREACHABLE_MS = 10_000

/** Age, ms, from which a view for operators requests a newer digest of a region. */
const VIEW_FRESH_MS = 1_000
/** Time, ms, after which a region that has not answered a request for its digest is shown as unreachable. */
const VIEW_WAIT_MS = 1_000

class Entry {
  digest: PoolDigest | null = null
  /** null: there is no choice between this pool and another. */
  estimator: RegionEstimator | null = null
  /** Affinity keys of the pools. null: there is no choice, or another pool of the choice holds them. */
  affinityKeys: AffinityKeys | null = null
  /** Time at which a newer digest is needed, or at which the last refresh counts as lost. */
  dueAt = 0
  /** Local time of receipt; the object's clock may differ. */
  receivedAt = 0
  requestedAt: number | null = null
  failedAt: number | null = null
  /** First request for a digest since the last answer or failure. null: there is none. */
  unansweredSince: number | null = null
  /** The log has the warning about different block division. */
  hasWarnedOfBlocking = false
  /** The log has the warning about a missing region digest. */
  hasWarnedOfMissingDigest = false
}

/**
 * Last digest of each pool. Requests never wait for a refresh: a stale digest is used while a newer one is fetched in
 * the background. A pool without any digest counts as neutral.
 */
export class DigestCache implements PoolDigests {
  readonly #options: DigestCacheOptions
  readonly #ports: DigestCacheOptions['ports']
  readonly #entries = new Map<string, Entry>()
  readonly #byRoute = new WeakMap<PoolRoute, Entry>()

  constructor(options: DigestCacheOptions) {
    this.#options = options
    this.#ports = options.ports
  }

  order(exchange: RoutedRequest): readonly PoolRoute[] {
    const { routes, regionPreference = null } = exchange
    const [first] = routes
    if (first === undefined) return routes
    if (routes.length === 1) {
      this.#refresh(first, exchange.scope, false)
      return routes
    }
    for (const route of routes) this.#refreshForChoice(route, exchange.scope)
    const byId = new Map(routes.map((route) => [poolKey(route), route]))
    const admission = exchange.source.admission(first)
    const via = headerOf(exchange.headers ?? [], 'via')
    const ranks = rankClusters(
      // Prompts with equal block division are measured once.
      [...byId].map(([id, route]) =>
        this.#view(id, route, hasSameBlocking(first, route) ? admission : exchange.source.admission(route), via),
      ),
      (this.#entry(first).affinityKeys ??= new AffinityKeys()).keyOf(admission),
      () => this.#ports.random(),
    )
    const ordered = regionPreference === null ? ranks : inOrder(regionPreference, ranks, byId)
    return ordered.map(({ id }) => byId.get(id)!)
  }

  firstPass(exchange: Exchange): Pass {
    return passOverAll(this.order(exchange))
  }

  latest(route: PoolRoute): PoolDigest | null {
    return this.#entry(route).digest
  }

  current(route: PoolRoute, scope: Pick<RequestScope, 'background'>): PoolDigest | null {
    this.#refresh(route, scope, false)
    return this.latest(route)
  }

  fallback(admission: Admission, route: PoolRoute, isLate = false): Placement | null {
    if (!isLate) this.failed(route)
    return fallbackPlacement(admission, route.pool.engines, this.latest(route))
  }

  /** Records that the object was unreachable, so that others are tried first for a while. */
  failed(route: PoolRoute): void {
    this.#entry(route).failedAt = this.#ports.now()
  }

  sent(route: PoolRoute, prompt: Pick<Admission, 'promptTokens' | 'blocks' | 'tokenSource'>): InFlightPrompt | null {
    return (
      this.#entries
        .get(poolKey(route))
        ?.estimator?.sent(prompt, route.pool.blockTokens, route.cluster.gateway?.rttMs ?? null) ?? null
    )
  }

  /**
   * Last digests of another gateway, as seen from here, for a gateway in front of this one. `scope` keeps the refresh
   * alive.
   */
  regionDigests(route: PoolRoute, scope: RequestScope): readonly RegionDigest[] {
    this.#refreshForChoice(route, scope)
    const { estimator } = this.#entry(route)
    const rttS = (route.cluster.gateway?.rttMs ?? estimator?.rttMs ?? 0) / 1000
    const withRtt = (engineEstimate: RegionDigest['usual']) =>
      engineEstimate && { ...engineEstimate, waitS: engineEstimate.waitS + rttS }
    return (estimator?.regionDigests ?? []).map((regionDigest) => ({
      ...regionDigest,
      soonest: withRtt(regionDigest.soonest),
      usual: withRtt(regionDigest.usual),
    }))
  }

  /**
   * Status of the gateway behind which a cluster is, for operators. null: unknown, or the cluster has none.
   * @param waits waits for a refresh of stale data
   */
  async regionStatus(route: PoolRoute, waits: boolean): Promise<RegionStatus | null> {
    const { gateway } = route.cluster
    if (gateway === null) return null
    const refresh = this.#refreshForView(route)
    // The first digest may need a new connection; without it there is nothing to show.
    const isFirst = this.#entry(route).estimator?.hasDigest !== true
    if (waits && refresh !== null) await (isFirst ? refresh : withTimeout(VIEW_WAIT_MS, refresh))
    const { estimator, digest, failedAt, receivedAt, unansweredSince } = this.#entry(route)
    if (!estimator?.hasDigest || digest === null) return null
    const { regionDigests, rttMs, hasSameBlocking: blockingMatch } = estimator
    const now = this.#ports.now()
    return regionStatusOf(regionDigests, {
      reachable: failedAt === null && (unansweredSince === null || now - unansweredSince < VIEW_WAIT_MS),
      ageMs: now - receivedAt,
      rttMs: gateway.rttMs ?? rttMs,
      blockingMatch,
    })
  }

  /** Refreshes now, for callers with a timer. Returns whether the pool answered. */
  async refresh(route: PoolRoute): Promise<boolean> {
    await this.#fetch(route, this.#startRefresh(route, true))
    return this.#entry(route).failedAt === null
  }

  #view(
    id: string,
    { cluster, pool }: PoolRoute,
    prompt: Pick<Admission, 'promptTokens' | 'blocks' | 'tokenSource'>,
    via: string | null,
  ): ClusterView {
    const { digest, receivedAt, failedAt, estimator } = this.#entries.get(id)!
    const now = this.#ports.now()
    const isUnreachable = failedAt !== null && now - failedAt < UNREACHABLE_MS
    const usableEstimator = digest === null ? null : estimator
    return {
      id,
      weight: cluster.weight,
      digest,
      estimate: usableEstimator?.of(prompt, pool.blockTokens, cluster.gateway?.rttMs ?? null) ?? null,
      ageMs: now - receivedAt,
      // A request must not go back to the gateway that sent it.
      unreachable:
        isUnreachable ||
        usableEstimator?.hasNoEngine === true ||
        (usableEstimator?.name != null && hasPassed(via, usableEstimator.name)),
    }
  }

  /** @param isChoice the pool is compared with others */
  #refresh(route: PoolRoute, scope: Pick<RequestScope, 'background'>, isChoice: boolean): void {
    if (this.#ports.now() < this.#entry(route).dueAt) return
    scope.background(this.#fetch(route, this.#startRefresh(route, isChoice)))
  }

  /** As `#refresh`; also if the pool was not compared with others so far. */
  #refreshForChoice(route: PoolRoute, scope: Pick<RequestScope, 'background'>): void {
    const entry = this.#entry(route)
    if (entry.estimator === null && entry.requestedAt === null) entry.dueAt = 0
    this.#refresh(route, scope, true)
  }

  /** As `#refreshForChoice`, for views, which show within 2 s what has become of a region. null: nothing is due. */
  #refreshForView(route: PoolRoute): Promise<void> | null {
    const { requestedAt, receivedAt } = this.#entry(route)
    const last = Math.max(requestedAt ?? -Infinity, receivedAt)
    return this.#ports.now() - last < VIEW_FRESH_MS ? null : this.#fetch(route, this.#startRefresh(route, true))
  }

  #startRefresh(route: PoolRoute, isChoice: boolean): Entry {
    const entry = this.#entry(route)
    entry.requestedAt = this.#ports.now()
    entry.unansweredSince ??= entry.requestedAt
    entry.dueAt = entry.requestedAt + LOST_AFTER_MS
    if (isChoice) entry.estimator ??= new RegionEstimator()
    return entry
  }

  async #fetch(route: PoolRoute, entry: Entry): Promise<void> {
    const startedAt = this.#ports.now()
    const { estimator } = entry
    try {
      estimator?.beginRefresh()
      const [digest, response] = await Promise.all([
        poolOf(this.#ports, route).digest(),
        estimator && this.#fetchRegionDigests(route, entry),
      ])
      entry.requestedAt = null
      entry.unansweredSince = null
      entry.failedAt = null
      if (response && estimator)
        estimator.update(response, {
          tookMs: Math.max(0, this.#ports.now() - startedAt),
          hasSameBlocking: this.#checkBlocking(route, entry, response),
        })
      if (response || isNewer(digest, entry.digest)) {
        entry.digest = digest
        entry.receivedAt = this.#ports.now()
      }
      entry.dueAt = entry.receivedAt + (route.cluster.gateway?.digestIntervalMs ?? this.#options.freshMs ?? FRESH_MS)
    } catch (error) {
      // `dueAt` stays as `#startRefresh` has set it, so that an unreachable object is asked again only after a pause.
      const isNew = entry.failedAt === null
      entry.failedAt = this.#ports.now()
      entry.unansweredSince = null
      // Unreachable pools are asked every second; the log gets one warning.
      if (isNew) this.#warn('digest_unreachable', route, error)
    }
  }

  /** Fetches the region digest. null: the gateway is reachable but sends none. */
  async #fetchRegionDigests(route: PoolRoute, entry: Entry): Promise<RegionDigestResponse | null> {
    try {
      if (route.cluster.gateway === null) {
        const regionDigest = await poolOf(this.#ports, route).region?.digest()
        return regionDigest === undefined ? null : { fingerprint: null, regionDigests: [regionDigest] }
      }
      const response = await fetchRegionDigests(this.#ports.origin, route, this.#options.via ?? '')
      entry.hasWarnedOfMissingDigest = false
      return response
    } catch (error) {
      if (route.cluster.gateway === null) return null
      if (!(error instanceof RegionUnavailable && error.servesRequests)) throw error
      if (!entry.hasWarnedOfMissingDigest) this.#warn('region_digest_refused', route, error)
      entry.hasWarnedOfMissingDigest = true
      entry.estimator = new RegionEstimator()
      return null
    }
  }

  #warn(event: string, { cluster, pool }: PoolRoute, error: unknown): void {
    const next = error instanceof RegionUnavailable && error.next !== null ? { next: error.next } : {}
    this.#ports.log.warn(event, { cluster: cluster.id, pool: pool.model, error: String(error), ...next })
  }

  /** Warns once if prompts are divided into blocks differently there. */
  #checkBlocking(route: PoolRoute, entry: Entry, { fingerprint, regionDigests }: RegionDigestResponse): boolean {
    // Without fingerprints no choice depends on the division.
    if (
      route.cluster.gateway === null ||
      this.#options.fingerprintOf === undefined ||
      (fingerprint !== null && fingerprint === this.#options.fingerprintOf(route))
    )
      return true
    if (!entry.hasWarnedOfBlocking && regionDigests.length > 0) {
      const { cluster, pool } = route
      this.#ports.log.warn('region_blocking_mismatch', {
        cluster: cluster.id,
        pool: pool.model,
        next:
          'Prefixes cached there are not recognised here: set the same model name, block_tokens and tokenizer ' +
          'on both gateways.',
      })
    }
    entry.hasWarnedOfBlocking = true
    return false
  }

  #entry(route: PoolRoute): Entry {
    return this.#byRoute.get(route) ?? this.#open(route)
  }

  #open(route: PoolRoute): Entry {
    const id = poolKey(route)
    const entry = this.#entries.get(id) ?? new Entry()
    this.#entries.set(id, entry)
    this.#byRoute.set(route, entry)
    return entry
  }
}

/** Ranked clusters in the order in which their regions are preferred. */
const inOrder = (
  preference: RegionPreference,
  ranks: readonly ClusterRank[],
  byId: ReadonlyMap<string, PoolRoute>,
): readonly ClusterRank[] =>
  byPreference(preference, ranks, ({ id, unavailable, ttftS }) => ({
    region: byId.get(id)!.cluster.region,
    isUnavailable: unavailable,
    ttftMs: ttftS === null ? null : ttftS * 1000,
  }))

const hasSameBlocking = ({ pool: one }: PoolRoute, { pool: other }: PoolRoute): boolean =>
  one.blockTokens === other.blockTokens && one.tokenizer === other.tokenizer && one.model === other.model

/**
 * Compares versions, because replies may overtake each other. Another epoch is another process, whose numbers start
 * again.
 */
function isNewer(digest: PoolDigest, known: PoolDigest | null): boolean {
  if (known === null) return true
  return digest.epoch === known.epoch ? digest.seq > known.seq : digest.at >= known.at
}

/** Key of a pool. Neither name can contain a line break. */
function poolKey({ cluster, pool }: PoolRoute): string {
  return `${cluster.id}\n${pool.model}`
}
