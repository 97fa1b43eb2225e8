/** The product's ports in one Node process. */
import { fetchJson } from '../fetch-json.ts'
import { randomUUID } from 'node:crypto'
import type { Config, TtftConfig } from '../../config.ts'
import { FallbackLimiter } from '../../api/limiter-fallback.ts'
import { ResponseAffinity } from '../../api/responses.ts'
import { toPoolConfig, toStoreLimits } from '../../config/normalize.ts'
import { type PoolSource, withAutoConfigure } from '../../origin/auto-configure.ts'
import type { Cluster, Limiter, StoredResponses, Log, Ports, Ttft } from '../../ports.ts'
import { nodeTimers } from './deadline.ts'
import { socketOrigin } from './http1/origin.ts'
import { parseLongInTurns } from './long-json.ts'
import type { Replicas } from './replicas/replicas.ts'
import { steadyNow } from './steady-clock.ts'
import { ClusterState } from '../../core/pool/pool-state.ts'
import { LocalCluster } from '../../origin/local-cluster.ts'
import { mapYielding } from '../../api/map-yielding.ts'
import type { StoreLimits } from '../../core/reports/report-store.ts'
import { countedUpTo } from '../../core/reports/rollups.ts'
import { TtftState } from '../../core/reports/ttft-state.ts'
import type { ReportPartial } from '../../core/reports/partial.ts'
import { BatchExporter } from '../../telemetry/batch-exporter.ts'

/** Resolves after sockets and timers have run in the event loop. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Batching delay, long enough for a batch and short enough for readers. */
const DELAY_MS = 250

/**
 * Stores reports as before, and forwards each one in batches to the gateway of `relay`. Duplicates are harmless there.
 */
export function relayed(
  ttft: Ttft,
  relay: () => TtftConfig['relay'],
  ports: Required<Pick<Ports, 'post'>> & Pick<Ports, 'now' | 'log'>,
): Ttft {
  const { now, log } = ports
  const outbox = new BatchExporter<ReportPartial>({
    name: 'relay',
    delayMs: DELAY_MS,
    now,
    log,
    async send(partials) {
      const to = relay()
      if (to === null) return
      const headers = {
        'content-type': 'application/json',
        ...(to.token === null ? {} : { authorization: `Bearer ${to.token}` }),
      }
      const status = await ports.post(`${to.url}/ttft_report`, headers, JSON.stringify(partials.map(toWire)))
      // A rejected report will be rejected again, but a wrong token can be corrected.
      if (status >= 300 && status !== 400) throw new Error(`the gateway that keeps the reports answered ${status}`)
    },
  })
  const scope = { background: (work: Promise<unknown>) => void work }
  return {
    ...ttft,
    async report(partials) {
      if (relay() !== null) for (const partial of partials) outbox.add(partial, scope)
      return ttft.report(partials)
    },
  }
}

/** Converts a report to the format that `readPartial` reads. */
export function toWire({
  role,
  id,
  values,
  chunk,
  chunks,
  last,
  item,
  serial,
}: ReportPartial): Record<string, unknown> {
  return {
    role,
    request_id: id,
    ...Object.fromEntries(values),
    ...(chunk === null ? {} : { chunk }),
    ...(chunks === null ? {} : { chunks }),
    ...(last ? { last } : {}),
    ...(item === null ? {} : { item }),
    ...(serial === null ? {} : { serial }),
  }
}

export interface MemoryTtftOptions {
  /** null: reports are off. Rollups for metrics are kept in any case. */
  readonly store: StoreLimits | null
  /** Milliseconds since the epoch. */
  readonly now?: () => number
}

/** Thousands of requests may end per second, so records are stored in batches. A reader flushes them first. */
const BATCH_MS = 100

export interface MemoryTtft extends Ttft {
  /** Takes effect now; no effect while reports are off. */
  setLimits(limits: StoreLimits): void
}

/** Reports and rollups in this process's memory. */
export function memoryTtft({ store, now = Date.now }: MemoryTtftOptions): MemoryTtft {
  const state = new TtftState({ store })
  return {
    batchMs: BATCH_MS,
    setLimits: (limits) => state.setLimits(limits),
    report: async (partials) => state.report(partials, now()),
    find: async (id) => state.find(id, now()),
    flush: async (batch) => void state.flush(batch, now()),
    rollups: async () => state.rollups(),
    counted: (limitsMs) => mapYielding(yieldToEventLoop, state.rollups(), (group) => countedUpTo(group, limitsMs)),
    forget: async (names, before) => void state.forget(names, before),
  }
}

/** Interval of the check for expired bookings; a lease is many times longer. */
const SWEEP_MS = 1_000

export interface MemoryClustersOptions {
  /** Returns the current configuration of a pool; null: no such pool. */
  readonly source: (clusterId: string, pool: string) => PoolSource | null
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** In [0, 1). */
  readonly random?: () => number
}

export interface MemoryClusters {
  /** Returns the same object for the same names. */
  cluster(clusterId: string, pool: string): Cluster
  /** Releases expired bookings. Called by a timer, and by tests. */
  sweep(): void
  close(): void
}

/** Pool state in this process's memory: sufficient for one gateway process. */
export function memoryClusters({
  source,
  now = Date.now,
  random = Math.random,
}: MemoryClustersOptions): MemoryClusters {
  const clusters = new Map<string, { readonly state: ClusterState; readonly cluster: Cluster }>()
  const sweep = () => {
    for (const { state } of clusters.values()) state.expire(now())
  }
  const timer = setInterval(sweep, SWEEP_MS)
  timer.unref()
  return {
    cluster(clusterId, pool) {
      const name = JSON.stringify([clusterId, pool])
      let known = clusters.get(name)
      if (known === undefined) {
        const state = new ClusterState({ random, epoch: randomUUID() })
        known = { state, cluster: withAutoConfigure(new LocalCluster(state, now), () => source(clusterId, pool)) }
        clusters.set(name, known)
      }
      return known.cluster
    },
    sweep,
    close: () => clearInterval(timer),
  }
}

export interface NodePorts extends Ports {
  readonly storedResponses: StoredResponses
  /** Applies the pools of a new configuration. */
  adopt(config: Config): void
  /** Stops timers and closes idle sockets. */
  close(): void
}

/** Time limit for a response of a trace collector. */
const POST_MS = 10_000

const post: NonNullable<Ports['post']> = async (url, headers, body) => {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { ...headers },
    body,
    signal: AbortSignal.timeout(POST_MS),
  })
  await answer.body?.cancel()
  return answer.status
}

/** The server accepts 16 KiB of headers. */
const MEASURED_PROMPT_BYTES = 8 * 1024

/** Ports that depend neither on the configuration nor on the place of pool state. */
export function machinePorts(log: Log) {
  return {
    origin: socketOrigin({ now: steadyNow }),
    now: steadyNow,
    random: () => Math.random(),
    newId: () => randomUUID(),
    log,
    alarms: nodeTimers,
    yieldToEventLoop,
    post,
    fetchJson,
    parseLong: parseLongInTurns(yieldToEventLoop),
    measuredPromptBytes: MEASURED_PROMPT_BYTES,
  }
}

/** Wraps a cluster, for example to record its calls. */
export type ClusterMiddleware = (cluster: Cluster, pool: PoolSource['pool']) => Cluster

/** Objects that outlive a configuration and observe clusters. */
export interface RuntimeHooks {
  readonly between?: ClusterMiddleware
  readonly replicas?: Pick<Replicas, 'join' | 'cluster' | 'storedResponses' | 'limits'> | null
}

export function nodePorts(config: Config, log: Log, { between, replicas = null }: RuntimeHooks = {}): NodePorts {
  let sources = sourcesOf(config)
  const source = (clusterId: string, pool: string) => sources.get(JSON.stringify([clusterId, pool])) ?? null
  const clusters = memoryClusters({ source, now: steadyNow })
  const storedResponses = new ResponseAffinity(config.limits.responseIds)
  replicas?.join({ pool: (...name) => source(...name)?.pool ?? null, storedResponses })
  const machine = machinePorts(log)
  const kept = memoryTtft({ store: config.ttft.enabled ? toStoreLimits(config.ttft) : null, now: steadyNow })
  let { relay } = config.ttft
  let fallback = config.keyLimitsFallback
  return {
    ...machine,
    cluster(clusterId, pool) {
      const books = clusters.cluster(clusterId, pool)
      const cluster = replicas === null ? books : replicas.cluster(books, [clusterId, pool])
      const settings = between === undefined ? null : source(clusterId, pool)
      return between === undefined || settings === null ? cluster : between(cluster, settings.pool)
    },
    storedResponses: replicas?.storedResponses ?? storedResponses,
    ...(replicas === null ? {} : { limiter: limiterOf(replicas.limits, log, () => fallback) }),
    ttft: config.ttft.enabled ? relayed(kept, () => relay, { post, now: steadyNow, log }) : kept,
    adopt(next) {
      sources = sourcesOf(next)
      relay = next.ttft.relay
      fallback = next.keyLimitsFallback
      kept.setLimits(toStoreLimits(next.ttft))
    },
    close() {
      clusters.close()
      machine.origin.close()
    },
  }
}

/** Longest wait of a request for the server that counts the limits, ms. */
const LIMIT_MS = 50

const limiterOf = (limits: Replicas['limits'], log: Log, fallback: () => Config['keyLimitsFallback']): Limiter =>
  new FallbackLimiter(limits, {
    now: steadyNow,
    log,
    limitMs: LIMIT_MS,
    fallback,
    share: () => limits.share,
    lostAt: () => limits.lostAt,
  })

function sourcesOf({ version, clusters }: Config): ReadonlyMap<string, PoolSource> {
  return new Map(
    clusters.flatMap((cluster) =>
      cluster.pools.map(
        (pool) => [JSON.stringify([cluster.id, pool.model]), { version, pool: toPoolConfig(cluster, pool) }] as const,
      ),
    ),
  )
}
