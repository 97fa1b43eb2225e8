/**
 * Other gateways in front of the same engines, which exchange their bookings over a Valkey or Redis server. See
 * docs/replicas.md.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { ResponseAffinity } from '../../../api/responses.ts'
import { VERSION } from '../../../api/version.ts'
import type { ReplicasConfig } from '../../../config.ts'
import type { PoolConfig, ReplicaDigest, Result } from '../../../core/contract/contract.ts'
import type { LimitShare } from '../../../core/limits/key-limiter.ts'
import type { Cluster, Limiter, StoredResponses, Log, PoolName } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import { type Client, createClientOf, isReply, Link, ServerLog } from './connection.ts'
import { WIRE_VERSION } from './messages.ts'
import { PoolFeed } from './pool-feed.ts'
import { ReplicatedCluster } from './replicated.ts'
import { ReplicatedLimits } from './replicated-limits.ts'
import { ReplicatedResponses } from './replicated-responses.ts'

/** Often enough for pools whose `lease_ms` is a second, the minimum. */
const TICK_MS = 200

export interface ReplicasParts {
  readonly log: Log
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** For tests. */
  readonly createClient?: (config: ReplicasConfig) => Promise<Client>
}

/** State of this gateway alone. */
export interface OwnState {
  readonly cluster: (...name: PoolName) => Cluster
  /** null: the pool is not configured. */
  readonly pool: (...name: PoolName) => PoolConfig | null
  readonly held: ResponseAffinity
}

export class Replicas {
  readonly id = `${hostname().replaceAll(/[\s:]/g, '-')}:${randomUUID()}`
  readonly #config: ReplicasConfig
  readonly #parts: ReplicasParts
  readonly #server: ServerLog
  readonly #feeds = new Map<string, PoolFeed>()
  readonly #clusters = new WeakMap<Cluster, ReplicatedCluster>()
  /** Pools in which each replica is followed. */
  readonly #joined = new Map<string, number>()
  #links: Links | null = null
  #own: OwnState | null = null
  #responses: StoredResponses | null = null
  #limits: ReplicatedLimits | null = null
  #lostAt = -Infinity
  #isLost = false
  /** When the server last answered. null: it never did. */
  #limitShare: LimitShare | null = null
  #timers: readonly NodeJS.Timeout[] = []

  constructor(config: ReplicasConfig, parts: ReplicasParts) {
    this.#config = config
    this.#parts = parts
    this.#server = new ServerLog(parts.log)
  }

  /** Called once, before anything else. Connects in the background; the gateway does not wait for the server. */
  join(own: OwnState): void {
    this.#own = own
    const create = () => (this.#parts.createClient ?? createClientOf)(this.#config)
    const link = (up: (client: Client) => void, down: () => void) =>
      new Link(create, {
        up: (client) => {
          up(client)
          if (this.#links !== null && isUp(this.#links)) this.#server.up()
        },
        down: (error) => {
          down()
          this.#server.down(error)
        },
      })
    const eachFeed = (change: (feed: PoolFeed) => void) => (): void => {
      for (const feed of this.#feeds.values()) change(feed)
    }
    this.#links = {
      publish: link(
        eachFeed((feed) => feed.publishing(true)),
        eachFeed((feed) => feed.publishing(false)),
      ),
      subscribe: link(
        (client) => eachFeed((feed) => feed.subscribe(client))(),
        eachFeed((feed) => feed.following.unsubscribed()),
      ),
      control: link(
        () => {
          eachFeed((feed) => feed.following.resync())()
          this.#limitsBack()
        },
        () => void (this.#isLost = this.#limitShare !== null),
      ),
    }
    this.#serve(own, this.#links.control)
    this.#timers = [
      setInterval(() => void this.#heartbeat(), this.#config.leaseMs / 5).unref(),
      setInterval(
        eachFeed((feed) => feed.tick()),
        TICK_MS,
      ).unref(),
    ]
  }

  #limitsBack(): void {
    this.#lostAt = this.lostAt
    this.#isLost = false
  }

  /** What all pools share. */
  #serve(own: OwnState, link: Link): void {
    this.#responses = new ReplicatedResponses(own.held, {
      link,
      prefix: this.#prefix,
      isPool: (name) => own.pool(...name) !== null,
      forgotten: (id) => this.#feeds.forEach((feed) => feed.forgotten(id)),
    })
    this.#limits = new ReplicatedLimits({
      link,
      prefix: this.#prefix,
      leaseMs: this.#config.leaseMs,
      rejected: (error) => this.#server.rejected(error),
    })
  }

  get holdings(): StoredResponses {
    return this.#responses!
  }

  get limits(): Limiter {
    return this.#limits!
  }

  /** When the server was last unreachable; -Infinity: never since the first connection. */
  get lostAt(): number {
    return this.#isLost ? this.#parts.now() : this.#lostAt
  }

  /** Share of this replica in limits while the server is unreachable. */
  get limitShare(): LimitShare {
    return this.#limitShare ?? { count: 1, rank: 0 }
  }

  get isUp(): boolean {
    return this.#server.isUp
  }

  /** The ledger of a pool, which publishes its bookings. */
  cluster(ledger: Cluster, name: PoolName): Cluster {
    const known = this.#clusters.get(ledger)
    if (known !== undefined) return known
    const replicated = new ReplicatedCluster(ledger, {
      feed: this.#feedOf(name),
      replicas: () => ({ replicas: this.digests, isUp: this.isUp }),
      pool: () => this.#own!.pool(...name),
    })
    this.#clusters.set(ledger, replicated)
    return replicated
  }

  get digests(): readonly ReplicaDigest[] {
    const digests = new Map<string, ReplicaDigest>()
    for (const { following, awayMs } of this.#feeds.values()) {
      const isFollowed = following.isCurrent && awayMs < this.#config.leaseMs
      for (const [id, { bookings }] of following.peers) {
        const known = digests.get(id)
        const state = isFollowed && known?.state !== 'away' ? 'following' : 'away'
        digests.set(id, { host: hostOf(id), id, state, bookings: bookings.size + (known?.bookings ?? 0) })
      }
    }
    return [...digests.values()]
  }

  /** After the last request. Other replicas remove this one at once. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await Promise.all(Array.from(this.#feeds.values(), (feed) => feed.close()))
    for (const link of Object.values(this.#links ?? {})) link.close()
  }

  get #prefix(): string {
    return `${this.#config.prefix}:${WIRE_VERSION}`
  }

  /** A frozen server rejects nothing: if it does not answer in time, all connections are opened anew. */
  async #heartbeat(): Promise<void> {
    const links = this.#links!
    if (links.control.client === null) return
    const limitMs = this.#config.leaseMs / 3
    const failed = (error: Error): void => {
      this.#server.rejected(error)
      // The subscription to the same node does not work either, and reports nothing.
      if (!isReply(error)) links.subscribe.reset(error)
    }
    const beats = Array.from(this.#feeds.values(), (feed) => feed.heartbeat().catch(failed))
    // Twice: after a stall of this process timers fire before answers that have arrived are read.
    for (let half = 0; half < 2; half++) {
      if ((await withTimeout(limitMs / 2, Promise.all(beats))) === null) continue
      if (links.control.client !== null) {
        const present = [this.id, ...this.digests.map(({ id }) => id)].toSorted()
        this.#limitShare = { count: present.length, rank: present.indexOf(this.id) }
      }
      return void this.#limits?.renew()
    }
    const error = new Error(`no answer to a heartbeat within ${Math.round(limitMs)} ms`)
    for (const link of Object.values(links)) link.reset(error)
  }

  #feedOf(name: PoolName): PoolFeed {
    const key = JSON.stringify(name)
    const known = this.#feeds.get(key)
    if (known !== undefined) return known
    const own = this.#own!
    const { publish, subscribe, control } = this.#links!
    const feed = new PoolFeed(name, {
      replica: this.id,
      prefix: this.#prefix,
      leaseMs: this.#config.leaseMs,
      publishLink: publish,
      controlLink: control,
      now: this.#parts.now,
      ledger: () => {
        const pool = own.pool(...name)
        return pool === null ? null : { ...pool, cluster: own.cluster(...name) }
      },
      forget: (id) => own.held.forget(id),
      hasEngine: (engine) => own.pool(...name)?.engines.some(({ id }) => id === engine) === true,
      drained: ({ draining, engine }) =>
        this.#parts.log.info(draining ? 'engine_draining' : 'engine_undrained', { cluster: name[0], engine }),
      joined: (id) => this.#peerJoined(id),
      left: (id, bookings, result) => this.#peerLeft(id, bookings, result),
      rejected: (error) => this.#server.rejected(error),
      failed: (error) => subscribe.reset(error),
    })
    this.#feeds.set(key, feed)
    if (publish.client !== null) feed.publishing(true)
    if (subscribe.client !== null) feed.subscribe(subscribe.client)
    return feed
  }

  #peerJoined(id: string): void {
    const pools = this.#joined.get(id) ?? 0
    this.#joined.set(id, pools + 1)
    if (pools === 0) this.#parts.log.info('replica_joined', { host: hostOf(id), replica: id, version: VERSION })
  }

  #peerLeft(id: string, bookings: number, result: Result): void {
    const pools = (this.#joined.get(id) ?? 1) - 1
    if (pools > 0) return void this.#joined.set(id, pools)
    this.#joined.delete(id)
    const why = result === 'lapsed' ? 'its presence expired' : 'it has ended'
    this.#parts.log.info('replica_left', { host: hostOf(id), replica: id, bookings, why })
  }
}

interface Links {
  readonly publish: Link
  /** A subscribed connection runs no other commands. */
  readonly subscribe: Link
  /** Heartbeats and snapshots, which must not wait behind bookings. */
  readonly control: Link
}

const isUp = (links: Links): boolean => Object.values(links).every((link: Link) => link.client !== null)
const hostOf = (id: string): string => id.slice(0, id.lastIndexOf(':'))
