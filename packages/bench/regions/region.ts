import type { PoolDigest } from '../../../src/core/contract/pool-digest.ts'
import type { PolicyConfig } from '../../../src/core/contract/pool-config.ts'
import type { RegionDigest } from '../../../src/core/contract/region-digest.ts'
import type { JobListener, ReplayEngine } from '../../replay/src/replay/replay-engine.ts'
import { EventQueue } from '../../replay/src/replay/event-queue.ts'
import { GatewayRouter } from '../../replay/src/replay/gateway-router.ts'
import { Job } from '../../replay/src/replay/job.ts'

/** Trip from the edge that chose a region. */
export interface Trip {
  /** One way, ms. */
  readonly wayMs: number
  /** Chosen with the region; null: the region chooses. */
  readonly engine: number | null
}

export interface RegionOptions {
  readonly engines: number
  readonly makeEngine: (listener: JobListener) => ReplayEngine
  readonly policy: PolicyConfig
  readonly blockTokens: number
  readonly random: () => number
  /** Trip of a job that is sent here. */
  readonly tripOf: (job: Job) => Trip
}

interface Guest {
  readonly job: Job
  readonly trip: Trip
}

/** A gateway and its engines at a distance. For a replay it is one engine. */
export class Region implements ReplayEngine, JobListener {
  readonly engines: readonly ReplayEngine[]
  readonly #options: RegionOptions
  readonly #listener: JobListener
  readonly #gateway: GatewayRouter
  readonly #words = new EventQueue()
  readonly #guests = new Map<Job, Guest>()

  constructor(options: RegionOptions, listener: JobListener) {
    this.#options = options
    this.#listener = listener
    this.engines = Array.from({ length: options.engines }, () => options.makeEngine(this))
    const { policy, blockTokens, random } = options
    this.#gateway = new GatewayRouter(
      { name: 'region', policy },
      { engines: this.engines, blockTokens, random, rttMs: 0 },
    )
  }

  regionDigest(now: number): RegionDigest {
    return this.#gateway.state.regionDigest(now)
  }

  digest(now: number): PoolDigest {
    return this.#gateway.state.digest(now)
  }

  scrape(now: number): void {
    this.#gateway.scrape(now)
  }

  submit(job: Job, now: number): void {
    const trip = this.#options.tripOf(job)
    this.#words.add(now + trip.wayMs, (at) => this.#arrived({ job, trip }, at))
  }

  nextEventAt(): number {
    return this.engines.reduce((soonest, engine) => Math.min(soonest, engine.nextEventAt()), this.#words.nextAt())
  }

  advance(now: number): void {
    for (let at = this.nextEventAt(); at <= now; at = this.nextEventAt()) {
      const engine = this.engines.find((one) => one.nextEventAt() === at)
      if (engine === undefined) this.#words.take()!()
      else engine.advance(at)
    }
  }

  firstToken(guest: Job, at: number): void {
    const { job, trip } = this.#guests.get(guest)!
    guest.firstTokenAt = at
    if (trip.engine === null) this.#gateway.firstToken(guest, at)
    this.#words.add(at + trip.wayMs, (now) => this.#listener.firstToken(job, now))
  }

  progress(guest: Job, outputBlocks: number, at: number): void {
    const { job, trip } = this.#guests.get(guest)!
    if (trip.engine === null) this.#gateway.progress(guest, outputBlocks, at)
    else this.#words.add(at + trip.wayMs, (now) => this.#listener.progress(job, outputBlocks, now))
  }

  ended(guest: Job, at: number): void {
    const { job, trip } = this.#guests.get(guest)!
    this.#guests.delete(guest)
    guest.endedAt = at
    if (trip.engine === null) this.#gateway.ended(guest, at)
    this.#words.add(at + trip.wayMs, (now) => {
      job.cachedTokens = guest.cachedTokens
      job.preemptions = guest.preemptions
      this.#listener.ended(job, now)
    })
  }

  gauges() {
    const all = this.engines.map((engine) => engine.gauges())
    const sum = (pick: (one: (typeof all)[number]) => number) => all.reduce((total, one) => total + pick(one), 0)
    return {
      running: sum(({ running }) => running),
      waiting: sum(({ waiting }) => waiting),
      kvUsage: sum(({ kvUsage }) => kvUsage) / all.length,
    }
  }

  get cacheBlocks(): number {
    return this.engines.reduce((sum, engine) => sum + engine.cacheBlocks, 0)
  }

  get computedTokens(): number {
    return this.engines.reduce((sum, engine) => sum + engine.computedTokens, 0)
  }

  exactCachedTokens(job: Job): number {
    return Math.max(...this.engines.map((engine) => engine.exactCachedTokens(job)))
  }

  exactTtftMs(job: Job, now: number): number {
    return Math.min(...this.engines.map((engine) => engine.exactTtftMs(job, now)))
  }

  exactColdTtftMs(job: Job, now: number): number {
    return Math.min(...this.engines.map((engine) => engine.exactColdTtftMs(job, now)))
  }

  #arrived({ job, trip }: Guest, now: number): void {
    const guest = new Job(job.index, job.request)
    guest.sentAt = now
    this.#guests.set(guest, { job, trip })
    const engine = trip.engine ?? this.#gateway.route(guest, now)?.engine
    if (engine === undefined) throw new Error('a region refused a request')
    this.engines[engine]!.submit(guest, now)
  }
}
