/** Servers with several data-parallel ranks: each rank is an engine of the pool, with its own queue and cache. */
import type { EngineSignal, RankStats } from '../../contract/engine-signal.ts'
import type { EngineSpec, PoolConfig, RankSpec } from '../../contract/pool-config.ts'
import { MAX_RANKS, rankIdOf } from '../../contract/rank-id.ts'
import type { PoolEvents } from '../pool-events.ts'
import { RankCheck } from './rank-check.ts'
import type { EngineSnapshot } from '../snapshot.ts'

/** Time after which a server that ignored the choice of a rank is tried again, ms. */
const RETRY_MS = 3_600_000

type DrainSignal = Extract<EngineSignal, { readonly kind: 'drain' }>

interface RankServer {
  ranks: RankSpec
  /** Ranks that are engines now; 1: the server is one engine. */
  count: number
  /** A probe has shown the ranks. */
  isKnown: boolean
  /** Number of ranks in the last probe, if it differed. */
  differing: number | null
  /** When its ranks became one engine because it ignored their header, ms since the epoch. null: they are separate. */
  mergedAt: number | null
  check: RankCheck
  /** The operator drains the server. null: no. */
  drain: DrainSignal | null
}

interface RankServerParts {
  readonly events: PoolEvents
  /** Requests of this gateway that an engine has completed. */
  readonly servedBy: (engine: string) => number
}

export class RankServers {
  readonly #parts: RankServerParts
  readonly #servers = new Map<string, RankServer>()

  constructor(parts: RankServerParts) {
    this.#parts = parts
  }

  /** Whether the pool has servers with ranks. */
  get isUsed(): boolean {
    return this.#servers.size > 0
  }

  /** The pool with the ranks of each server in place of the server. */
  expand(pool: PoolConfig): PoolConfig {
    for (const id of this.#servers.keys())
      if (!pool.engines.some((spec) => spec.id === id && spec.ranks !== undefined)) this.#servers.delete(id)
    if (!pool.engines.some(({ ranks }) => ranks !== undefined)) return pool
    return { ...pool, engines: pool.engines.flatMap((spec) => this.#enginesOf(spec)) }
  }

  #enginesOf(spec: EngineSpec): readonly EngineSpec[] {
    const { id, ranks, maxInFlight, ...shared } = spec
    if (ranks === undefined) return [spec]
    const server = this.#serverOf(id, ranks)
    if (server.count === 1)
      return [{ ...shared, id, maxInFlight, ...(server.mergedAt === null ? {} : { ignoresRanks: true }) }]
    // The limit protects the server, and its ranks share the work.
    const share = maxInFlight === null ? null : Math.ceil(maxInFlight / server.count)
    return this.engineIdsOf(id).map((rank) => ({ ...shared, id: rank, server: id, maxInFlight: share }))
  }

  #serverOf(id: string, ranks: RankSpec): RankServer {
    const known = this.#servers.get(id)
    if (known !== undefined && (known.ranks.count ?? 0) === (ranks.count ?? 0)) {
      known.ranks = ranks
      return known
    }
    const server: RankServer = {
      ranks,
      count: ranks.count ?? 1,
      isKnown: false,
      differing: null,
      mergedAt: null,
      check: new RankCheck(),
      drain: null,
    }
    this.#servers.set(id, server)
    return server
  }

  /** Engines of a server: its ranks, or the engine itself. */
  engineIdsOf(id: string): readonly string[] {
    const server = this.#servers.get(id)
    if (server === undefined || server.count === 1) return [id]
    return Array.from({ length: server.count }, (_, at) => rankIdOf(id, server.ranks.first + at))
  }

  /** Signals of a server for each of its engines. */
  signalsOf(signal: EngineSignal): readonly EngineSignal[] {
    const server = this.#servers.get(signal.engine)
    if (server === undefined) return [signal]
    const engines = this.engineIdsOf(signal.engine)
    if (signal.kind === 'drain') server.drain = signal.draining ? signal : null
    if (signal.kind !== 'probe') return engines.map((engine) => ({ ...signal, engine }))
    const { ranks = [], ...probe } = signal
    if (server.count === 1) return [probe]
    const ofRank = reader(server, ranks)
    return engines.map((engine, at) => ({ ...probe, engine, stats: ofRank(at)?.stats ?? null }))
  }

  /** Drains for engines that join a server that drains. */
  drainsOf(id: string): readonly EngineSignal[] {
    const drain = this.#servers.get(id)?.drain ?? null
    return drain === null ? [] : this.engineIdsOf(id).map((engine) => ({ ...drain, engine }))
  }

  /** Reads the ranks that a probe shows. true: the engines of the server have changed. */
  probed(signal: EngineSignal, now: number): boolean {
    const { engine } = signal
    const server = this.#servers.get(engine)
    if (server === undefined || signal.kind !== 'probe' || signal.ranks === undefined) return false
    const { ranks } = signal
    if (server.mergedAt !== null) return splitAgain(server, now)
    if (server.ranks.count === null && countChanged(server, ranks.length)) return true
    if (server.ranks.count !== null && ranks.length > 0 && ranks.length !== server.count)
      this.#parts.events.raise({ event: 'ranks_differ', engine, ranks: ranks.length }, now)
    return this.#mergedIfIgnored(engine, ranks, now)
  }

  #mergedIfIgnored(id: string, ranks: readonly RankStats[], now: number): boolean {
    const server = this.#servers.get(id)!
    if (server.count === 1) return false
    const ofRank = reader(server, ranks)
    const engines = this.engineIdsOf(id)
    const completed = engines.flatMap((_, at) => ofRank(at)?.completed ?? [])
    if (completed.length < engines.length) return false
    if (!server.check.ignoresHeader({ completed, own: engines.map(this.#parts.servedBy) })) return false
    this.#parts.events.raise({ event: 'ranks_ignored', engine: id, ranks: server.count }, now)
    server.mergedAt = now
    server.count = 1
    return true
  }

  /** Takes the number of ranks from a snapshot. true: the engines of a server have changed. */
  restore(engines: readonly EngineSnapshot[], pool: PoolConfig): boolean {
    let isChanged = false
    for (const { id, ranks } of pool.engines) {
      if (ranks === undefined || ranks.count !== null) continue
      const own = engines.filter(({ spec, removed }) => spec.server === id && !removed)
      if (own.length <= 1) continue
      const drain = own.every(({ draining }) => draining) ? { kind: 'drain', engine: id, draining: true } : null
      Object.assign(this.#serverOf(id, ranks), { count: own.length, isKnown: true, drain })
      isChanged = true
    }
    return isChanged
  }
}

function splitAgain(server: RankServer, now: number): boolean {
  if (now - server.mergedAt! < RETRY_MS) return false
  Object.assign(server, { mergedAt: null, count: server.ranks.count ?? 1, isKnown: false, check: new RankCheck() })
  return server.count > 1
}

/** A first number counts at once; another one when two probes in a row have shown it. 0: metrics were not read. */
function countChanged(server: RankServer, found: number): boolean {
  if (found === 0) return false
  const count = Math.min(found, MAX_RANKS)
  const isSure = !server.isKnown || server.differing === count
  server.differing = count === server.count ? null : count
  server.isKnown = true
  if (server.differing === null || !isSure) return false
  server.count = count
  server.differing = null
  server.check = new RankCheck()
  return true
}

/** Returns a function that finds the report of the engine at a position. Ranks that were found count from 0. */
function reader(
  { ranks: { count, first } }: RankServer,
  reports: readonly RankStats[],
): (at: number) => RankStats | undefined {
  return count === null ? (at) => reports[at] : (at) => reports.find(({ rank }) => rank === first + at)
}
