/** Ports of the gateway, from the bindings of a Worker. */
import { fetchJson } from '../fetch-json.ts'
import type { ClusterObject } from '../../../durable/cluster.ts'
import type { EdgeObject } from '../../../durable/edge.ts'
import type { LimitObject } from '../../../durable/limit.ts'
import type { TtftObject } from '../../../durable/ttft.ts'
import { FallbackLimiter } from '../../api/limiter-fallback.ts'
import type { Config, LogConfig } from '../../config.ts'
import { toPoolConfig, toStoreLimits, toTargets } from '../../config/normalize.ts'
import type { EngineSignal, PoolConfig } from '../../core/contract/contract.ts'
import type { LimitShare, Reservation } from '../../core/limits/key-limiter.ts'
import { type Limiter, type Log, messageOf, type Ports, type Ttft } from '../../ports.ts'
import { engineProbe, newProbeMemory } from '../../origin/probe.ts'
import type { ConfigEnv, ConfigSource } from './config-source.ts'
import { durableClusters, type PoolPlace } from './clusters.ts'
import type { EdgeClient } from './edge-client.ts'
import { workersOrigin } from './origin.ts'
import { homeOf } from '../../core/reports/partial.ts'
import type { Added, StoreLimits } from '../../core/reports/report-store.ts'
import type { FoundReport } from '../../core/reports/ttft-state.ts'
import { hashText } from '../../core/routing/rendezvous.ts'

/** Fixed: another number would divide the reports of running requests. */
const SHARDS = 4
/** Interval, ms, of batches. */
const BATCH_MS = 1_000

/** TTFT reports in Durable Objects, sharded by request; one call per shard and batch. */
export function durableTtft(namespace: DurableObjectNamespace<TtftObject>, limits: StoreLimits): Ttft {
  const share: StoreLimits = {
    ttlMs: limits.ttlMs,
    maxRequests: Math.ceil(limits.maxRequests / SHARDS),
    maxBytes: limits.maxBytes,
  }
  // A stub that failed stays unusable, so each call gets a new one.
  const open = (shard: number) => namespace.getByName(`ttft:${shard}`)
  const all = Array.from({ length: SHARDS }, (_, shard) => shard)
  return {
    batchMs: BATCH_MS,
    async report(partials) {
      const answers: Added[] = []
      await each(
        inShards(partials, ({ id }) => id),
        async (shard, items) => {
          const added = await open(shard).report(
            items.map(({ item }) => item),
            share,
          )
          for (const [at, one] of added.entries()) answers[items[at]!.index] = one
        },
      )
      return answers
    },
    async find(id) {
      const home = shardOf(id)
      const found: FoundReport | null = await open(home).find(id)
      if (found !== null) return found
      // The shards know the report by the client's label; the caller asked by the gateway's id.
      const others = await Promise.all(
        all.filter((shard) => shard !== home).map(async (shard): Promise<FoundReport | null> => open(shard).find(id)),
      )
      return others.find((one) => one !== null) ?? null
    },
    async flush(batch) {
      await each(
        inShards(batch.records, ({ requestId }) => requestId),
        (shard, items) => open(shard).flush({ ...batch, records: items.map(({ item }) => item) }, share),
      )
    },
    async rollups() {
      return (await Promise.all(all.map(async (shard) => open(shard).rollups()))).flat()
    },
    async forget(names, before) {
      await Promise.all(all.map((shard) => open(shard).forget(names, before)))
    },
  }
}

const shardOf = (id: string): number => hashText(homeOf(id)) % SHARDS

interface Placed<Item> {
  readonly item: Item
  /** Position in its batch. */
  readonly index: number
}

function inShards<Item>(items: readonly Item[], idOf: (item: Item) => string): Map<number, Placed<Item>[]> {
  const shards = new Map<number, Placed<Item>[]>()
  for (const [index, item] of items.entries()) {
    const shard = shardOf(idOf(item))
    const there = shards.get(shard)
    if (there === undefined) shards.set(shard, [{ item, index }])
    else there.push({ item, index })
  }
  return shards
}

async function each<Item>(
  shards: ReadonlyMap<number, Item>,
  call: (shard: number, items: Item) => Promise<void>,
): Promise<void> {
  await Promise.all([...shards].map(([shard, items]) => call(shard, items)))
}

/* Structured lines for Workers Logs: one JSON object each, errors with their causes. */

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

type Write = (line: string) => void

/** `level` is a function, because the log is created before the configuration. */
export function workersLog(
  level: () => LogConfig['level'],
  write: Readonly<Record<'debug' | 'info' | 'warn' | 'error', Write>> = console,
): Log {
  const writes = (name: 'debug' | 'info' | 'warn' | 'error') => LEVELS.indexOf(name) >= LEVELS.indexOf(level())
  const at =
    (name: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: Readonly<Record<string, unknown>> = {}) => {
      if (!writes(name)) return
      write[name](
        JSON.stringify({ level: name, event, ...fields, message: messageOf(event) }, (_, value: unknown) =>
          value instanceof Error ? plain(value) : value,
        ),
      )
    }
  return { writes, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function plain(error: Error): unknown {
  return { name: error.name, message: error.message, ...(error.cause === undefined ? {} : { cause: error.cause }) }
}

/** Time limit, ms, of a call to a collector. */
const POST_MS = 10_000

export interface PortsEnv {
  readonly CLUSTER: DurableObjectNamespace<ClusterObject>
  /** Absent on deployments from before TTFT reports. */
  readonly TTFT?: DurableObjectNamespace<TtftObject>
  /** Absent on deployments older than the limits per key. */
  readonly LIMIT?: DurableObjectNamespace<LimitObject>
  /** Absent on deployments older than the state that isolates share. */
  readonly EDGE?: DurableObjectNamespace<EdgeObject>
}

/** Returns ports for the whole isolate; nothing in them belongs to one request. */
/** Cloudflare accepts 128 KiB of headers. */
const MEASURED_PROMPT_BYTES = 48 * 1024

export function workersPorts(config: Config, env: PortsEnv, log: Log, edge: EdgeClient | null = null): Ports {
  const places = placesOf(config)
  const source = (clusterId: string, pool: string) => places.get(nameOf(clusterId, pool)) ?? null
  return {
    cluster: durableClusters(env.CLUSTER, { source, edge }),
    origin: workersOrigin({ bindings: { ...env } }),
    now: () => Date.now(),
    random: () => Math.random(),
    newId: () => crypto.randomUUID(),
    log,
    ...(config.ttft.enabled ? ttftOf(config, env, log) : {}),
    ...(hasLimits(config) ? limiterOf(config, env, log) : {}),
    fetchJson,
    measuredPromptBytes: MEASURED_PROMPT_BYTES,
    async post(url, headers, body) {
      const answer = await fetch(url, {
        method: 'POST',
        headers: { ...headers },
        body,
        signal: AbortSignal.timeout(POST_MS),
      })
      await answer.body?.cancel()
      return answer.status
    },
  }
}

const hasLimits = ({ keyLimits, keys, jwt }: Config): boolean =>
  keyLimits !== null || jwt?.limits != null || (keys ?? []).some(({ limits }) => limits !== null)

/** Longest wait of a request for the object that counts the limits of its key, ms. */
const LIMIT_MS = 2_000
/** An isolate that has ended holds places of `concurrent` for this long, ms. */
const RESERVED_MS = 30_000
/** An isolate does not know how many others there are, so its share is the whole limit. */
const ALONE: LimitShare = { count: 1, rank: 0 }

/** One object per key. Without the binding each isolate counts alone. */
function limiterOf({ keyLimitsFallback }: Config, { LIMIT }: PortsEnv, log: Log): Pick<Ports, 'limiter'> {
  if (LIMIT === undefined) {
    log.error('key_limits_unbound', { missing: 'LIMIT', see: 'the durable object LimitObject in wrangler.toml' })
    return {}
  }
  // A stub that failed stays unusable, so each call gets a new one.
  const open = (key: string) => LIMIT.getByName(`limit:${key}`)
  const carrier: Limiter = {
    reserve: async (reservation) => open(reservation.key).reserve(leased(reservation)),
    settle: async (settlement) => open(settlement.key).settle(settlement),
    renewal: { everyMs: RESERVED_MS / 3, renew: async (running) => open(running.key).renew(running) },
  }
  const parts = { now: () => Date.now(), log, limitMs: LIMIT_MS, fallback: () => keyLimitsFallback, share: () => ALONE }
  return { limiter: new FallbackLimiter(carrier, parts) }
}

/** Only a place of `concurrent` matters before the end. */
const leased = (reservation: Reservation): Reservation =>
  reservation.limits.concurrent === null ? reservation : { ...reservation, leaseMs: RESERVED_MS }

function ttftOf(config: Config, { TTFT }: PortsEnv, log: Log): Pick<Ports, 'ttft'> {
  if (TTFT !== undefined) return { ttft: durableTtft(TTFT, toStoreLimits(config.ttft)) }
  log.error('ttft_unbound', { missing: 'TTFT', see: 'the durable object TtftObject in wrangler.toml' })
  return {}
}

function placesOf(config: Config): ReadonlyMap<string, PoolPlace> {
  const places = new Map<string, PoolPlace>()
  for (const cluster of config.clusters) {
    const { generation, locationHint, jurisdiction } = cluster
    for (const pool of cluster.pools) {
      places.set(nameOf(cluster.id, pool.model), {
        version: config.version,
        pool: toPoolConfig(cluster, pool),
        shards: pool.shards,
        isRegional: cluster.gateway !== null,
        generation,
        locationHint,
        jurisdiction,
      })
    }
  }
  return places
}

const nameOf = (clusterId: string, pool: string): string => JSON.stringify([clusterId, pool])

/* Probes engines for a cluster object: the object has their ids, the configuration has their addresses. */

const log = workersLog(() => 'info')
/** Lives as long as the isolate: see engineProbe. */
const memory = newProbeMemory()

/** Probes the engines of `pool`. Returns nothing if the configuration no longer has the pool. */
export async function probePool(
  pool: PoolConfig,
  env: ConfigEnv,
  source: ConfigSource,
): Promise<readonly EngineSignal[]> {
  const loaded = await source.current(env, (work) => void work.catch(() => {}))
  if ('problem' in loaded) return []
  const settings = loaded.config.clusters
    .find(({ id }) => id === pool.cluster)
    ?.pools.find(({ model }) => model === pool.pool)
  if (settings === undefined) return []
  const probe = engineProbe(workersOrigin({ bindings: { ...env } }), log, memory)
  const own = new Set(pool.engines.map(({ id }) => id))
  // An object of a pool with several has a part of the engines.
  const targets = [...toTargets(settings).values()].filter(({ id, external }) => own.has(id) && external === undefined)
  const signals = await Promise.all(targets.map((target) => probe(target, () => Date.now())))
  return signals.filter((signal) => signal !== null)
}
