/**
 * Other gateways in front of the same engines, which exchange their bookings over a Valkey or Redis server. See
 * docs/replicas.md.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { FencedEngines } from '../../../origin/pause/running-bookings.ts'
import type { MemoryResponses } from '../../../origin/memory-responses.ts'
import { VERSION } from '../../../version.ts'
import type { ReplicasConfig } from '../../../config.ts'
import type { PoolConfig } from '../../../core/contract/pool-config.ts'
import type { ReplicaDigest } from '../../../core/contract/pool-digest.ts'
import type { Log } from '../../../ports/log.ts'
import type { PoolName, PoolPort } from '../../../ports/pool.ts'
import type { StoredResponses } from '../../../ports/stored-responses.ts'
import { withTimeout } from '../../../timeout.ts'
import { type Client, createClientOf, isServerError, Connection } from './connection.ts'
import { WIRE_VERSION } from './messages.ts'
import { PoolFeed } from './pool-feed.ts'
import type { IssuedKeyStore } from '../../../ports/issued-keys.ts'
import { ReplicatedKeys } from './replicated-keys.ts'
import { ReplicatedLimits } from './replicated-limits.ts'
import { ReplicatedResponses } from './replicated-responses.ts'
import { ServerLog } from './server-log.ts'

/** Progress is published as often; often enough for pools whose `lease_ms` is a second, the minimum. */
const TICK_MS = 100

export interface ReplicasParts {
  readonly log: Log
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** null: the pool is not configured. */
  readonly pool: (...name: PoolName) => PoolConfig | null
  readonly storedResponses: MemoryResponses
  /** Ends answers of engines in this process. Absent: it has none. */
  readonly fence?: (fenced: FencedEngines) => void
  /** For tests. */
  readonly createClient?: (config: ReplicasConfig) => Promise<Client>
}

export class Replicas {
  readonly id = `${hostname().replaceAll(/[\s:]/g, '-')}:${randomUUID()}`
  readonly #config: ReplicasConfig
  readonly #parts: ReplicasParts
  readonly #server: ServerLog
  readonly #feeds = new Set<PoolFeed>()
  readonly #pools = new Map<string, PoolPort>()
  /** Events of this replica. */
  readonly #publish: Connection
  /** A subscribed connection runs no other commands. */
  readonly #subscribe: Connection
  /** Heartbeats and snapshots, which must not wait behind bookings. */
  readonly #control: Connection
  readonly #responses: ReplicatedResponses
  readonly #limits: ReplicatedLimits
  readonly #issuedKeys: ReplicatedKeys
  readonly #timers: readonly NodeJS.Timeout[]

  /** Connects in the background; the gateway does not wait for the server. */
  constructor(config: ReplicasConfig, parts: ReplicasParts) {
    this.#config = config
    this.#parts = parts
    this.#server = new ServerLog(parts.log)
    const feeds = this.#feeds
    this.#publish = this.#connection(
      () => feeds.forEach(({ openBookings }) => openBookings.connected(true)),
      () => feeds.forEach(({ openBookings }) => openBookings.connected(false)),
    )
    this.#subscribe = this.#connection(
      (client) => feeds.forEach(({ peerBookings }) => void peerBookings.subscribe(client)),
      () => feeds.forEach(({ peerBookings }) => peerBookings.unsubscribed()),
    )
    this.#control = this.#connection(
      () => {
        feeds.forEach(({ peerBookings }) => peerBookings.resync())
        this.#limits.connected()
      },
      () => this.#limits.disconnected(),
    )
    const shared = { connection: this.#control, prefix: this.#prefix }
    this.#responses = new ReplicatedResponses(parts.storedResponses, {
      ...shared,
      isPool: (name) => parts.pool(...name) !== null,
      forgotten: (id) => feeds.forEach(({ openBookings }) => openBookings.announce(['forgotten', id])),
    })
    this.#issuedKeys = new ReplicatedKeys(shared)
    this.#limits = new ReplicatedLimits({
      ...shared,
      leaseMs: config.leaseMs,
      clock: parts.now,
      rejected: (error) => this.#server.rejected(error),
    })
    this.#timers = [
      setInterval(() => void this.#heartbeat(), config.leaseMs / 5).unref(),
      setInterval(() => feeds.forEach((feed) => feed.tick()), TICK_MS).unref(),
    ]
  }

  get storedResponses(): StoredResponses {
    return this.#responses
  }

  get limits(): ReplicatedLimits {
    return this.#limits
  }

  get issuedKeys(): IssuedKeyStore {
    return this.#issuedKeys
  }

  get isUp(): boolean {
    return this.#server.isUp
  }

  /** The ledger of a pool, which publishes its bookings. */
  replicatedPool(localPool: PoolPort, name: PoolName): PoolPort {
    const key = JSON.stringify(name)
    const known = this.#pools.get(key)
    if (known !== undefined) return known
    const replicated = this.#feed(localPool, name).replicatedPool()
    this.#pools.set(key, replicated)
    return replicated
  }

  get digests(): readonly ReplicaDigest[] {
    const digests = new Map<string, ReplicaDigest>()
    for (const { peerBookings } of this.#feeds)
      for (const { id, isCurrent, bookings } of peerBookings.peers()) {
        const known = digests.get(id)
        const isFollowed = isCurrent && peerBookings.awayMs < this.#config.leaseMs && known?.state !== 'away'
        const state = isFollowed ? 'following' : 'away'
        digests.set(id, { host: hostOf(id), id, state, bookings: bookings + (known?.bookings ?? 0) })
      }
    return [...digests.values()]
  }

  /** After the last request. Other replicas remove this one at once. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await Promise.all(Array.from(this.#feeds, (feed) => feed.close()))
    for (const connection of this.#connections) connection.close()
  }

  get #prefix(): string {
    return `${this.#config.prefix}:${WIRE_VERSION}`
  }

  get #connections(): readonly Connection[] {
    return [this.#publish, this.#subscribe, this.#control]
  }

  #connection(up: (client: Client) => void, down: () => void): Connection {
    return new Connection(() => (this.#parts.createClient ?? createClientOf)(this.#config), {
      up: (client) => {
        up(client)
        if (this.#connections.every((connection) => connection.client !== null)) this.#server.up()
      },
      down: (error) => {
        down()
        this.#server.down(error)
      },
    })
  }

  /** A frozen server rejects nothing: if it does not answer in time, all connections are opened anew. */
  async #heartbeat(): Promise<void> {
    if (this.#control.client === null) return
    const failed = (error: Error): void => {
      this.#server.rejected(error)
      // The subscription to the same node does not work either, and reports nothing.
      if (!isServerError(error)) this.#subscribe.reset(error)
    }
    const beats = Promise.all(Array.from(this.#feeds, ({ peerBookings }) => peerBookings.heartbeat().catch(failed)))
    const limitMs = this.#config.leaseMs / 3
    // Twice: after a stall of this process timers fire before answers that have arrived are read.
    const isAnswered = (await withTimeout(limitMs / 2, beats)) ?? (await withTimeout(limitMs / 2, beats))
    if (isAnswered === null) {
      const error = new Error(`no answer to a heartbeat within ${Math.round(limitMs)} ms`)
      for (const connection of this.#connections) connection.reset(error)
    } else if (this.#control.client !== null) {
      this.#limits.present([this.id, ...this.digests.map(({ id }) => id)], this.id)
      void this.#limits.renew()
    }
  }

  #feed(localPool: PoolPort, name: PoolName): PoolFeed {
    const { log, now, pool, storedResponses, fence } = this.#parts
    /** Number of pools in which a replica is followed. */
    const pools = (id: string) => [...this.#feeds].filter(({ peerBookings }) => peerBookings.has(id)).length
    const feed = new PoolFeed(name, {
      replica: this.id,
      prefix: this.#prefix,
      leaseMs: this.#config.leaseMs,
      publish: this.#publish,
      control: this.#control,
      now,
      localPool,
      pool: () => pool(...name),
      replicas: () => ({ replicas: this.digests, replicasUp: this.isUp }),
      forget: (id) => storedResponses.forget(id),
      drained: ({ draining, engine }) =>
        log.info(draining ? 'engine_draining' : 'engine_undrained', { cluster: name[0], engine }),
      fence: (engine) => fence?.({ cluster: name[0], pool: name[1], engines: [engine] }),
      joined: (id) => {
        if (pools(id) === 1) log.info('replica_joined', { host: hostOf(id), replica: id, version: VERSION })
      },
      left: (id, bookings, result) => {
        const why = result === 'lapsed' ? 'its presence expired' : 'it has ended'
        if (pools(id) === 0) log.info('replica_left', { host: hostOf(id), replica: id, bookings, why })
      },
      rejected: (error) => this.#server.rejected(error),
      failed: (error) => this.#subscribe.reset(error),
    })
    this.#feeds.add(feed)
    if (this.#publish.client !== null) feed.openBookings.connected(true)
    const { client } = this.#subscribe
    if (client !== null) void feed.peerBookings.subscribe(client)
    return feed
  }
}

const hostOf = (id: string): string => id.slice(0, id.lastIndexOf(':'))
