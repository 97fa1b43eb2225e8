/** The product's ports in one Node process. */
import { FallbackLimiter } from '../fallback-limiter.ts'
import { MemoryResponses } from '../../origin/memory-responses.ts'
import type { Config } from '../../config.ts'
import { toStoreLimits } from '../../config/normalize.ts'
import { toPoolConfig } from '../../config/to-pool-config.ts'
import { type FencedEngines, runningBookings } from '../../origin/pause/running-bookings.ts'
import type { PoolSource } from '../../origin/pools/auto-configure.ts'
import type { RuntimePorts } from '../../ports.ts'
import type { Limiter } from '../../ports/limiter.ts'
import type { Log } from '../../ports/log.ts'
import type { PoolPort } from '../../ports/pool.ts'
import type { SharedState } from '../../ports/shared-state.ts'
import type { StoredResponses } from '../../ports/stored-responses.ts'
import type { Ttft } from '../../ports/ttft.ts'
import { ConfiguredAlerts } from '../configured-alerts.ts'
import { machinePorts } from './machine-ports.ts'
import { memoryPools } from './memory-pools.ts'
import { memoryTtft } from './memory-ttft.ts'
import type { Replicas, ReplicasParts } from './replicas/replicas.ts'
import { steadyNow } from './steady-clock.ts'
import { withRelay } from './ttft-relay.ts'

export interface NodePorts extends RuntimePorts {
  readonly shared: SharedState & { readonly storedResponses: StoredResponses }
  readonly ttft: Ttft
  /** Applies a new configuration. */
  adopt(config: Config): void
  /** Stops timers, closes idle sockets, and leaves the replicas. */
  close(): Promise<void>
}

/** Wraps a pool, for example to record its calls. */
export type PoolMiddleware = (pool: PoolPort, config: PoolSource['pool']) => PoolPort

/** What a gateway gives the replicas that it joins. */
export type ReplicaState = Pick<ReplicasParts, 'pool' | 'storedResponses' | 'fence'>

/** Parts of the ports that the command or the main thread supplies. */
export interface RuntimeHooks {
  readonly middleware?: PoolMiddleware
  /** Ends answers in the other threads of this process. Absent: there are none. */
  readonly fenceThreads?: (fenced: FencedEngines) => void
  /** Joins the other gateways in front of the same engines. Absent, null: this one is alone. */
  readonly joinReplicas?: ((own: ReplicaState) => Replicas) | null
}

export function nodePorts(
  config: Config,
  log: Log,
  { middleware, fenceThreads, joinReplicas }: RuntimeHooks = {},
): NodePorts {
  let sources = sourcesOf(config)
  const source = (clusterId: string, pool: string) => sources.get(clusterId)?.get(pool) ?? null
  const pools = memoryPools({ source, now: steadyNow })
  const storedResponses = new MemoryResponses(config.limits.responseIds)
  const machine = machinePorts(log)
  const replicas =
    joinReplicas?.({
      pool: (...name) => source(...name)?.pool ?? null,
      storedResponses,
      fence: fenceThreads ?? ((fenced) => void runningBookings(machine.origin).fence(fenced)),
    }) ?? null
  const memoryReports = memoryTtft({ store: config.ttft.enabled ? toStoreLimits(config.ttft) : null, now: steadyNow })
  let { relay } = config.ttft
  let fallback = config.keyLimitsFallback
  const alerts = new ConfiguredAlerts(config, machine)
  return {
    ...machine,
    pool(clusterId, pool) {
      const memoryPool = pools.pool(clusterId, pool)
      const unwrapped = replicas === null ? memoryPool : replicas.replicatedPool(memoryPool, [clusterId, pool])
      const settings = middleware === undefined ? null : source(clusterId, pool)
      return middleware === undefined || settings === null ? unwrapped : middleware(unwrapped, settings.pool)
    },
    shared: {
      storedResponses: replicas?.storedResponses ?? storedResponses,
      limiter: replicas === null ? undefined : limiterOf(replicas.limits, log, () => fallback),
    },
    alerts,
    issuedKeys: replicas?.issuedKeys,
    ttft: config.ttft.enabled ? withRelay(memoryReports, () => relay, machine) : memoryReports,
    adopt(next) {
      sources = sourcesOf(next)
      relay = next.ttft.relay
      fallback = next.keyLimitsFallback
      alerts.adopt(next)
      memoryReports.setLimits(toStoreLimits(next.ttft))
    },
    async close() {
      pools.close()
      machine.origin.close()
      await replicas?.close()
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

/** By cluster and model: attempts look pools up. */
function sourcesOf({ version, clusters }: Config): ReadonlyMap<string, ReadonlyMap<string, PoolSource>> {
  return new Map(
    clusters.map((cluster) => [
      cluster.id,
      new Map(cluster.pools.map((pool) => [pool.model, { version, pool: toPoolConfig(cluster, pool) }])),
    ]),
  )
}
