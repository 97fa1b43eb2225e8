/**
 * Other gateways in front of the same engines, which exchange their bookings over a Valkey or Redis server. See
 * docs/replicas.md.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { ResponseAffinity } from '../../../api/responses.ts'
import { VERSION } from '../../../api/version.ts'
import type { ReplicasConfig } from '../../../config.ts'
import type { PoolConfig, ReplicaDigest, Result, Resume } from '../../../core/contract/contract.ts'
import type { Cluster, Log, PoolName, StoredResponses, StoredResponse, Admitted, Lease } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import { type Client, createClientOf, isReply, Link, ServerLog } from './connection.ts'
import { WIRE_VERSION } from './messages.ts'
import { PoolFeed } from './pool-feed.ts'
import { ReplicatedLimits } from './replicated-limits.ts'
import { script } from './scripts.ts'
import { type Made, OpenBooking } from './open-bookings.ts'

/** Progress is published as often; often enough for pools whose `lease_ms` is a second, the minimum. */
const TICK_MS = 100

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
  readonly storedResponses: ResponseAffinity
}

export class Replicas {
  readonly id = `${hostname().replaceAll(/[\s:]/g, '-')}:${randomUUID()}`
  readonly #config: ReplicasConfig
  readonly #parts: ReplicasParts
  readonly #server: ServerLog
  readonly #feeds = new Set<PoolFeed>()
  readonly #clusters = new Map<string, Cluster>()
  /** Pools in which each replica is followed. */
  readonly #joined = new Map<string, number>()
  #own!: OwnState
  /** Events of this replica. */
  #publish!: Link
  /** A subscribed connection runs no other commands. */
  #subscribe!: Link
  /** Heartbeats and snapshots, which must not wait behind bookings. */
  #control!: Link
  #responses!: ReplicatedResponses
  #limits!: ReplicatedLimits
  #timers: readonly NodeJS.Timeout[] = []

  constructor(config: ReplicasConfig, parts: ReplicasParts) {
    this.#config = config
    this.#parts = parts
    this.#server = new ServerLog(parts.log)
  }

  /** Called once, before anything else. Connects in the background; the gateway does not wait for the server. */
  join(own: OwnState): void {
    this.#own = own
    const feeds = this.#feeds
    this.#publish = this.#link(
      () => feeds.forEach(({ open }) => open.connected(true)),
      () => feeds.forEach(({ open }) => open.connected(false)),
    )
    this.#subscribe = this.#link(
      (client) => feeds.forEach(({ following }) => void following.subscribe(client)),
      () => feeds.forEach(({ following }) => following.unsubscribed()),
    )
    this.#control = this.#link(
      () => {
        feeds.forEach(({ following }) => following.resync())
        this.#limits.connected()
      },
      () => this.#limits.disconnected(),
    )
    const shared = { link: this.#control, prefix: this.#prefix }
    this.#responses = new ReplicatedResponses(own.storedResponses, {
      ...shared,
      isPool: (name) => own.pool(...name) !== null,
      forgotten: (id) => feeds.forEach(({ open }) => open.announce(['forgotten', id])),
    })
    this.#limits = new ReplicatedLimits({
      ...shared,
      leaseMs: this.#config.leaseMs,
      clock: this.#parts.now,
      rejected: (error) => this.#server.rejected(error),
    })
    this.#timers = [
      setInterval(() => void this.#heartbeat(), this.#config.leaseMs / 5).unref(),
      setInterval(() => feeds.forEach((feed) => feed.tick()), TICK_MS).unref(),
    ]
  }

  get storedResponses(): StoredResponses {
    return this.#responses
  }

  get limits(): ReplicatedLimits {
    return this.#limits
  }

  get isUp(): boolean {
    return this.#server.isUp
  }

  /** The ledger of a pool, which publishes its bookings. */
  cluster(ledger: Cluster, name: PoolName): Cluster {
    const key = JSON.stringify(name)
    const known = this.#clusters.get(key)
    if (known !== undefined) return known
    const replicated = replicatedCluster(ledger, {
      feed: this.#feed(name),
      replicas: () => ({ replicas: this.digests, replicasUp: this.isUp }),
      pool: () => this.#own.pool(...name),
    })
    this.#clusters.set(key, replicated)
    return replicated
  }

  get digests(): readonly ReplicaDigest[] {
    const digests = new Map<string, ReplicaDigest>()
    for (const { following } of this.#feeds)
      for (const { id, isCurrent, bookings } of following.peers()) {
        const known = digests.get(id)
        const isFollowed = isCurrent && following.awayMs < this.#config.leaseMs && known?.state !== 'away'
        const state = isFollowed ? 'following' : 'away'
        digests.set(id, { host: hostOf(id), id, state, bookings: bookings + (known?.bookings ?? 0) })
      }
    return [...digests.values()]
  }

  /** After the last request. Other replicas remove this one at once. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await Promise.all(Array.from(this.#feeds, (feed) => feed.close()))
    for (const link of this.#links) link.close()
  }

  get #prefix(): string {
    return `${this.#config.prefix}:${WIRE_VERSION}`
  }

  get #links(): readonly Link[] {
    return [this.#publish, this.#subscribe, this.#control]
  }

  #link(up: (client: Client) => void, down: () => void): Link {
    return new Link(() => (this.#parts.createClient ?? createClientOf)(this.#config), {
      up: (client) => {
        up(client)
        if (this.#links.every((link) => link.client !== null)) this.#server.up()
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
      if (!isReply(error)) this.#subscribe.reset(error)
    }
    const beats = Promise.all(Array.from(this.#feeds, ({ following }) => following.heartbeat().catch(failed)))
    const limitMs = this.#config.leaseMs / 3
    // Twice: after a stall of this process timers fire before answers that have arrived are read.
    const isAnswered = (await withTimeout(limitMs / 2, beats)) ?? (await withTimeout(limitMs / 2, beats))
    if (isAnswered === null) {
      const error = new Error(`no answer to a heartbeat within ${Math.round(limitMs)} ms`)
      for (const link of this.#links) link.reset(error)
    } else if (this.#control.client !== null) {
      this.#limits.present([this.id, ...this.digests.map(({ id }) => id)], this.id)
      void this.#limits.renew()
    }
  }

  #feed(name: PoolName): PoolFeed {
    const own = this.#own
    const feed = new PoolFeed(name, {
      replica: this.id,
      prefix: this.#prefix,
      leaseMs: this.#config.leaseMs,
      publish: this.#publish,
      control: this.#control,
      now: this.#parts.now,
      ledger: own.cluster(...name),
      pool: () => own.pool(...name),
      forget: (id) => own.storedResponses.forget(id),
      drained: ({ draining, engine }) =>
        this.#parts.log.info(draining ? 'engine_draining' : 'engine_undrained', { cluster: name[0], engine }),
      joined: (id) => this.#peerJoined(id),
      left: (id, bookings, result) => this.#peerLeft(id, bookings, result),
      rejected: (error) => this.#server.rejected(error),
      failed: (error) => this.#subscribe.reset(error),
    })
    this.#feeds.add(feed)
    if (this.#publish.client !== null) feed.open.connected(true)
    const { client } = this.#subscribe
    if (client !== null) void feed.following.subscribe(client)
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

const hostOf = (id: string): string => id.slice(0, id.lastIndexOf(':'))

/* Engines of stored responses. */

/** Since its last use. Engines keep responses in memory, not for long. */
const TTL_MS = 3_600_000
/** A request with an unknown response id waits so long at most. */
const LOOKUP_MS = 100

/**
 * Stores where a response is kept. KEYS 1: response. ARGV: tenant, entry, ms. A response stays with its first tenant.
 */
const KEEP = script(`
local known = redis.call('GET', KEYS[1])
if known and cjson.decode(known).tenant ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`)

interface ResponseParts {
  readonly link: Link
  readonly prefix: string
  readonly isPool: (name: PoolName) => boolean
  readonly forgotten: (id: string) => void
}

/** Engines of stored responses: of this gateway's in memory, of all replicas' on the server. */
class ReplicatedResponses implements StoredResponses {
  readonly #own: StoredResponses
  readonly #parts: ResponseParts

  constructor(own: StoredResponses, parts: ResponseParts) {
    this.#own = own
    this.#parts = parts
  }

  async find(id: string, tenant: string): Promise<StoredResponse | null> {
    const own = await this.#own.find(id, tenant)
    const { client } = this.#parts.link
    if (own !== null || client === null) return own
    const stored = client.getEx(this.#key(id), { type: 'PX', value: TTL_MS })
    const found = await withTimeout(
      LOOKUP_MS,
      stored.then((text) => JSON.parse(text ?? 'null') as StoredResponse | null),
    )
    const known = found?.value ?? null
    return known?.tenant === tenant && this.#parts.isPool([known.cluster, known.pool]) ? known : null
  }

  keep(id: string, response: StoredResponse): void {
    this.#own.keep(id, response)
    const given = [response.tenant, JSON.stringify(response), String(TTL_MS)]
    // Without the server the response is known to this gateway alone.
    this.#parts.link.run(KEEP, [this.#key(id)], given).catch(() => undefined)
  }

  async forget(id: string): Promise<void> {
    await this.#own.forget(id)
    this.#parts.forgotten(id)
    const { client } = this.#parts.link
    if (client !== null) await withTimeout(LOOKUP_MS, client.del(this.#key(id)))
  }

  #key(id: string): string {
    return `${this.#parts.prefix}:response:${encodeURIComponent(id)}`
  }
}

/* A pool's ledger that publishes its bookings to the other replicas. */

interface Shared {
  readonly feed: PoolFeed
  readonly replicas: () => { readonly replicas: readonly ReplicaDigest[]; readonly replicasUp: boolean }
  /** null: the pool is not configured any more. */
  readonly pool: () => Pick<PoolConfig, 'blockTokens' | 'leaseMs'> | null
}

/** @param ledger of `withAutoConfigure`, whose methods need no `this` */
function replicatedCluster(ledger: Cluster, { feed, replicas, pool }: Shared): Cluster {
  const leased = (lease: Lease, booking: Pick<Made, 'admission' | 'placement'> & Partial<Resume>) => {
    const { blockTokens, leaseMs } = pool() ?? { blockTokens: 1, leaseMs: 60_000 }
    const made = new OpenBooking(lease, feed.open, { ...booking, blockTokens, leaseMs })
    feed.open.add(made)
    return made
  }
  const published = (admission: Resume['admission'], admitted: Admitted): Admitted =>
    'refusal' in admitted
      ? admitted
      : { ...admitted, lease: leased(admitted.lease, { admission, placement: admitted.placement }) }
  return {
    ...ledger,
    configure(version, next) {
      feed.news.configured(next.engines.map(({ id }) => id))
      return ledger.configure(version, next)
    },
    admit: async (admission) => published(admission, await ledger.admit(admission)),
    admitNow(admission) {
      const admitted = ledger.admitNow?.(admission) ?? null
      return admitted === null ? null : published(admission, admitted)
    },
    wait: async (admission, waitedMs) => published(admission, await ledger.wait!(admission, waitedMs)),
    async resume(booking) {
      const lease = await ledger.resume(booking)
      // A booking that has ended is not booked again, and not published.
      const isBooked = await lease.renew().then(
        () => true,
        () => false,
      )
      return isBooked ? leased(lease, booking) : lease
    },
    observe(signals) {
      for (const signal of signals) feed.news.signalled(signal)
      return ledger.observe(signals)
    },
    registry(call) {
      feed.news.registry(call)
      return ledger.registry!(call)
    },
    digest: async () => ({ ...(await ledger.digest()), ...replicas() }),
    explain: async (id) => (await ledger.explain(id)) ?? feed.explain(id),
    async summary(decisions, historySince = 0) {
      const { digest, ...rest } = await ledger.summary!(decisions, historySince)
      return { ...rest, digest: { ...digest, ...replicas() } }
    },
  }
}
