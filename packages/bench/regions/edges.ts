import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolDigest } from '../../../src/core/contract/pool-digest.ts'
import type { PolicyConfig } from '../../../src/core/contract/pool-config.ts'
import { readAdmission } from '../../../src/core/contract/decode.ts'
import { type ClusterView, rankClusters } from '../../../src/core/routing/cluster-order.ts'
import { AffinityKeys } from '../../../src/core/routing/affinity-keys.ts'
import { RegionEstimator, type InFlightPrompt } from '../../../src/origin/regions/region-estimator.ts'
import { EventQueue } from '../../replay/src/replay/event-queue.ts'
import { GatewayRouter, STATS_INTERVAL_MS } from '../../replay/src/replay/gateway-router.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import type { ReplayRouter, Route } from '../../replay/src/replay/router.ts'
import { regionOf, type Places, rttMsBetween } from './places.ts'
import type { Region, Trip } from './region.ts'

/** What an edge knows of regions when it chooses one. */
export type RegionKnowledge =
  /** Their distance. */
  | { readonly kind: 'nearest' }
  /** Only their number. */
  | { readonly kind: 'weights' }
  /** The loads in their digests, with this interval. */
  | { readonly kind: 'load'; readonly everyMs: number }
  /** Their digests; 0: exact and immediate. `prefixes`: whether the cached prefixes in them are used. */
  | { readonly kind: 'digest'; readonly everyMs: number; readonly prefixes: boolean }

/** Resolution of the times of digests. */
const TICK_MS = 5

export interface EdgesOptions {
  readonly places: Places
  readonly knowing: RegionKnowledge
  /** The edge of each request. */
  readonly entries: Uint8Array
  readonly trips: Map<Job, Trip>
  readonly blockTokens: number
  readonly random: () => number
}

/** Gateways that choose a region each, with the production code. */
export class Edges implements ReplayRouter {
  readonly name: string
  readonly scrapeMs = TICK_MS
  readonly #options: EdgesOptions
  readonly #regions: readonly Region[]
  readonly #edges: readonly Edge[]
  readonly #words = new EventQueue()
  readonly #sent = new Map<Job, InFlightPrompt>()

  constructor(options: EdgesOptions, regions: readonly Region[]) {
    this.name = options.knowing.kind
    this.#options = options
    this.#regions = regions
    this.#edges = Array.from({ length: options.places.edges }, (_, at) => new Edge(at, options))
    regions.forEach((region) => this.#every(STATS_INTERVAL_MS, 0, (now) => region.scrape(now)))
    const { knowing } = options
    if (!('everyMs' in knowing) || knowing.everyMs === 0) return
    for (const edge of this.#edges)
      regions.forEach((_, at) =>
        this.#every(knowing.everyMs, options.random() * knowing.everyMs, (now) => this.#ask(edge, at, now)),
      )
  }

  route(job: Job, now: number): Route {
    const edge = this.#edges[this.#options.entries[job.index]!]!
    const { knowing, trips } = this.#options
    if ('everyMs' in knowing && knowing.everyMs === 0) this.#regions.forEach((region, at) => edge.tell(at, region, now))
    const { region, sent } = edge.choose(job, now)
    if (sent !== null) this.#sent.set(job, sent)
    trips.set(job, { wayMs: edge.rttMs(region) / 2, engine: null })
    return { engine: region }
  }

  firstToken(job: Job, now: number): void {
    const trip = this.#options.trips.get(job)
    this.#words.add(now + (trip?.wayMs ?? 0), () => this.#over(job))
  }

  ended(job: Job): void {
    this.#over(job)
    this.#options.trips.delete(job)
  }

  scrape(now: number): void {
    this.#words.run(now)
  }

  #over(job: Job): void {
    this.#sent.get(job)?.end()
    this.#sent.delete(job)
  }

  #every(ms: number, at: number, happen: (now: number) => void): void {
    this.#words.add(at, (now) => {
      happen(now)
      this.#every(ms, now + ms, happen)
    })
  }

  #ask(edge: Edge, at: number, now: number): void {
    const wayMs = edge.rttMs(at) / 2
    edge.refreshing(at)
    this.#words.add(now + wayMs, (there) => {
      const updateFor = edge.updateFor(this.#regions[at]!, there)
      this.#words.add(there + wayMs, (back) => edge.receive(at, updateFor, back))
    })
  }
}

type DigestUpdate = Pick<View, 'digest'> & {
  readonly regionDigests: Parameters<RegionEstimator['update']>[0]['regionDigests']
}

interface View {
  readonly estimator: RegionEstimator | null
  digest: PoolDigest | null
  receivedAt: number
}

class Edge {
  readonly #at: number
  readonly #options: EdgesOptions
  readonly #views: readonly View[]
  readonly #affinityKeys = new AffinityKeys()

  constructor(at: number, options: EdgesOptions) {
    this.#at = at
    this.#options = options
    const expects = options.knowing.kind === 'digest'
    this.#views = Array.from({ length: options.places.regions }, () => ({
      estimator: expects ? new RegionEstimator() : null,
      digest: null,
      receivedAt: 0,
    }))
  }

  rttMs(region: number): number {
    return rttMsBetween(this.#options.places, this.#at, region)
  }

  refreshing(region: number): void {
    this.#views[region]!.estimator?.beginRefresh()
  }

  updateFor(region: Region, now: number): DigestUpdate {
    return this.#options.knowing.kind === 'load'
      ? { digest: region.digest(now), regionDigests: [] }
      : { digest: null, regionDigests: [region.regionDigest(now)] }
  }

  receive(region: number, { digest, regionDigests }: DigestUpdate, now: number): void {
    const { knowing } = this.#options
    const view = this.#views[region]!
    view.digest = digest
    view.receivedAt = now
    view.estimator?.update(
      { fingerprint: 1, regionDigests },
      { tookMs: this.rttMs(region), hasSameBlocking: knowing.kind === 'digest' && knowing.prefixes },
    )
  }

  tell(at: number, region: Region, now: number): void {
    this.refreshing(at)
    this.receive(at, this.updateFor(region, now), now)
  }

  choose(job: Job, now: number): { readonly region: number; readonly sent: InFlightPrompt | null } {
    const { places, knowing, blockTokens, random } = this.#options
    if (knowing.kind === 'nearest') return { region: regionOf(places, this.#at), sent: null }
    const admission = admissionOf(job)
    const views = this.#views.map((view, region): ClusterView => ({
      id: `region-${region}`,
      weight: 1,
      digest: view.digest,
      estimate: view.estimator?.of(admission, blockTokens, null) ?? null,
      ageMs: now - view.receivedAt,
      unreachable: false,
    }))
    const [first] = rankClusters(views, this.#affinityKeys.keyOf(admission), random)
    const region = views.findIndex(({ id }) => id === first!.id)
    return { region, sent: this.#views[region]!.estimator?.sent(admission, blockTokens, null) ?? null }
  }
}

function admissionOf({ index, promptTokens, blocks, request: { session } }: Job): Admission {
  return readAdmission({ id: `r${index}`, promptTokens, tokenSource: 'exact', blocks, session })
}

/** The reference: every edge has the state of all engines and their distance from the client. */
export class Everywhere implements ReplayRouter {
  readonly name = 'global'
  readonly scrapeMs = STATS_INTERVAL_MS
  readonly #options: Omit<EdgesOptions, 'knowing'>
  readonly #each: number
  readonly #gateway: GatewayRouter

  constructor(options: Omit<EdgesOptions, 'knowing'> & { readonly policy: PolicyConfig }, regions: readonly Region[]) {
    this.#options = options
    this.#each = regions[0]!.engines.length
    const { policy, blockTokens, random } = options
    this.#gateway = new GatewayRouter(
      { name: 'global', policy },
      { engines: regions.flatMap(({ engines }) => engines), blockTokens, random, rttMs: 0 },
    )
  }

  route(job: Job, now: number): Route {
    const { places, entries, trips } = this.#options
    const chosen = this.#seenFrom(job).route(job, now)!.engine
    const region = Math.floor(chosen / this.#each)
    trips.set(job, { wayMs: rttMsBetween(places, entries[job.index]!, region) / 2, engine: chosen % this.#each })
    return { engine: region }
  }

  firstToken(job: Job, now: number): void {
    this.#seenFrom(job).firstToken(job, now)
  }

  progress(job: Job, outputBlocks: number, now: number): void {
    this.#seenFrom(job).progress(job, outputBlocks, now)
  }

  ended(job: Job, now: number): void {
    this.#seenFrom(job).ended(job, now)
    this.#options.trips.delete(job)
  }

  scrape(now: number): void {
    this.#gateway.scrape(now)
  }

  /** The distance of engines depends on the edge. */
  #seenFrom({ index }: Job): GatewayRouter {
    const { places, entries } = this.#options
    const specs: readonly { rttMs: number }[] = this.#gateway.state.pool!.engines
    specs.forEach((spec, at) => (spec.rttMs = rttMsBetween(places, entries[index]!, Math.floor(at / this.#each))))
    return this.#gateway
  }
}
