import type { PolicyConfig } from '../../../../src/core/contract/pool-config.ts'
import { chance } from './chance.ts'
import { EventQueue } from './event-queue.ts'
import { type Choice, GatewayRouter, STATS_INTERVAL_MS } from './gateway-router.ts'
import type { Job } from './job.ts'
import type { ReplayRouter, Route, RouterContext } from './router.ts'

/** How the load balancer distributes requests to replicas. `client`: all requests of a session to one. */
export type BalancingMode = 'random' | 'turn' | 'client'

/** What happens to the last replica in the middle of a run. */
type Disruption =
  /** It crashes. Its requests continue unobserved, and their bookings expire after this time. */
  | { readonly kind: 'dies'; readonly lapseMs: number }
  /** A new one replaces it, while the old one finishes its requests. */
  | { readonly kind: 'restarts'; readonly knows: InitialState }

/**
 * State that the new replica receives: nothing; open bookings; also the learned state of engines; also the latest
 * prompts.
 */
type InitialState = 'nothing' | 'bookings' | 'learned' | 'prompts'

const PROMPTS_KEPT = 1000

export interface ReplicasOptions {
  readonly name: string
  readonly policy: PolicyConfig
  readonly replicas: number
  readonly balancing: BalancingMode
  readonly balancingSeed: number
  /** Delay from a replica's choice to the others' bookings; null: no exchange. */
  readonly delayMs: number | null
  /** `at`: before the request with this index. */
  readonly disruption?: Disruption & { readonly at: number }
}

interface OpenChoice {
  readonly by: GatewayRouter
  readonly choice: Choice
  outputBlocks: number
}

type BookingMessage = (gateway: GatewayRouter, at: number) => void

/**
 * Several gateways before the same engines behind one load balancer. Each has its own state and publishes its choices
 * and their outcomes to the others.
 */
export class ReplicatedRouter implements ReplayRouter {
  readonly name: string
  /** Replicas scrape at different times, because they were not started together. */
  readonly scrapeMs: number
  readonly #context: RouterContext
  readonly #options: ReplicasOptions
  readonly #gateways: GatewayRouter[]
  readonly #dead = new Set<GatewayRouter>()
  readonly #messages = new EventQueue()
  readonly #open = new Map<Job, OpenChoice>()
  /** The latest finished choices, for new replicas. */
  readonly #past: Choice[] = []
  readonly #random: () => number
  readonly #clients = new Map<string, number>()
  #routed = 0
  #scraped = -1

  constructor(options: ReplicasOptions, context: RouterContext) {
    this.name = options.name
    this.scrapeMs = STATS_INTERVAL_MS / options.replicas
    this.#options = options
    this.#context = context
    this.#random = chance(options.balancingSeed)
    this.#gateways = Array.from({ length: options.replicas }, () => this.#start())
  }

  /** Open bookings of each replica. */
  get bookings(): readonly number[] {
    return this.#gateways.map(({ state }) => state.bookings)
  }

  route(job: Job, now: number): Route | null {
    this.#messages.run(now)
    if (this.#options.disruption?.at === this.#routed) this.#disrupt(this.#options.disruption, now)
    const gateway = this.#gateways[this.#placeOf(job)]!
    this.#routed += 1
    return gateway.route(job, now)
  }

  firstToken(job: Job, now: number): void {
    this.#apply(job, now, (gateway, at) => gateway.firstToken(job, at))
  }

  progress(job: Job, outputBlocks: number, now: number): void {
    const open = this.#open.get(job)
    if (open !== undefined) open.outputBlocks = outputBlocks
    this.#apply(job, now, (gateway, at) => gateway.progress(job, outputBlocks, at))
  }

  ended(job: Job, now: number): void {
    this.#apply(job, now, (gateway, at) => gateway.ended(job, at))
    const open = this.#open.get(job)
    this.#open.delete(job)
    if (this.#options.disruption?.kind !== 'restarts' || open === undefined) return
    this.#past.push(open.choice)
    if (this.#past.length > PROMPTS_KEPT) this.#past.shift()
  }

  scrape(now: number): void {
    this.#messages.run(now)
    if (this.#scraped === -1) for (const gateway of this.#gateways) gateway.scrape(now)
    else this.#gateways[this.#scraped % this.#gateways.length]!.scrape(now)
    this.#scraped += 1
  }

  #start(): GatewayRouter {
    const { name, policy } = this.#options
    const gateway: GatewayRouter = new GatewayRouter(
      { name, policy, chose: (choice, now) => this.#chose(gateway, choice, now) },
      this.#context,
    )
    return gateway
  }

  #chose(by: GatewayRouter, choice: Choice, now: number): void {
    this.#open.set(choice.job, { by, choice, outputBlocks: 0 })
    this.#broadcast(by, now, (gateway, at) => gateway.receive(choice, 'now', at))
  }

  /** Applies an event at its own gateway and publishes it to the others. */
  #apply(job: Job, now: number, message: BookingMessage): void {
    this.#messages.run(now)
    const by = this.#open.get(job)?.by
    if (by === undefined || this.#dead.has(by)) return
    message(by, now)
    this.#broadcast(by, now, message)
  }

  #broadcast(by: GatewayRouter, now: number, message: BookingMessage): void {
    const { delayMs } = this.#options
    if (delayMs === null) return
    this.#messages.add(now + delayMs, (at) => {
      for (const gateway of this.#gateways) if (gateway !== by) message(gateway, at)
    })
  }

  /** Place of the replica that gets the request. */
  #placeOf({ request, index }: Job): number {
    const count = this.#gateways.length
    const { balancing } = this.#options
    if (balancing === 'turn') return this.#routed % count
    const drawn = Math.floor(this.#random() * count)
    if (balancing === 'random') return drawn
    const client = request.chain ?? String(index)
    const known = this.#clients.get(client) ?? drawn
    this.#clients.set(client, known)
    return known % count
  }

  #disrupt(disruption: Disruption, now: number): void {
    const old = this.#gateways.pop()!
    if (disruption.kind === 'restarts') {
      this.#gateways.push(this.#successor(disruption.knows, now))
      return
    }
    this.#dead.add(old)
    const abandoned = [...this.#open.values()].filter(({ by }) => by === old)
    this.#messages.add(now + disruption.lapseMs, (at) => {
      for (const { choice } of abandoned) for (const gateway of this.#gateways) gateway.lapse(choice.job, at)
    })
  }

  #successor(knows: InitialState, now: number): GatewayRouter {
    const fresh = this.#start()
    const learned = this.#gateways[0]!.state.snapshot(now)
    if (learned !== null && (knows === 'learned' || knows === 'prompts'))
      fresh.state.restore({ ...learned, configVersion: learned.configVersion + 1, bookings: [] }, now)
    if (knows === 'prompts') {
      for (const choice of this.#past) {
        fresh.receive(choice, { outputBlocks: 0 }, now)
        fresh.ended(choice.job, now)
      }
    }
    if (knows !== 'nothing')
      for (const { choice, outputBlocks } of this.#open.values()) fresh.receive(choice, { outputBlocks }, now)
    fresh.scrape(now)
    return fresh
  }
}
