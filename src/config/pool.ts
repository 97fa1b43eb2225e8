/** What the core and the pipe get to know of a configured pool. */
import type { EngineSpec, PoolConfig } from '../core/cluster/contract.ts'
import type { ClusterConfig, EngineConfig, PoolSettings } from '../config.ts'
import type { EngineTarget } from '../ports.ts'

/** The pool as its ClusterState needs it: without addresses and secrets. */
export function toPoolConfig(cluster: ClusterConfig, pool: PoolSettings): PoolConfig {
  const { mode, thresholdTokens, fallback } = pool.split
  return {
    cluster: cluster.id,
    pool: pool.model,
    blockTokens: pool.blockTokens,
    policy: pool.policy,
    shadow: pool.shadow,
    split: { mode, thresholdTokens, fallback },
    leaseMs: pool.leaseMs,
    retry: pool.retry,
    circuit: pool.circuit,
    statsIntervalMs: pool.statsIntervalMs,
    indexEntries: pool.indexEntries,
    engines: pool.engines.map((engine) => (cluster.gateway === undefined ? toEngineSpec(engine) : { ...toEngineSpec(engine), isGateway: true })),
  }
}

function toEngineSpec(engine: EngineConfig): EngineSpec {
  const { id, role, models, labels, weight, maxInFlight, prefixCaching, cacheBlocks, rttMs, profile, lmcacheInstance } = engine
  return { id, role, models, labels, weight, maxInFlight, prefixCaching, cacheBlocks, rttMs, profile, lmcacheInstance }
}

/** Engine id → where it is and what it wants to be told. */
export function toTargets(pool: PoolSettings, { gateway }: Pick<ClusterConfig, 'gateway'> = {}): ReadonlyMap<string, EngineTarget> {
  const more = gateway === undefined ? {} : { isGateway: true }
  return new Map(pool.engines.map((engine) => [engine.id, { ...toTarget(engine), ...more }]))
}

function toTarget(engine: EngineConfig): EngineTarget {
  const headers = Object.entries(engine.headers).flatMap(([name, value]) => [name.toLowerCase(), value])
  if (engine.key !== null) headers.push('authorization', `Bearer ${engine.key}`)
  return { id: engine.id, url: engine.url, headers, binding: engine.binding }
}
