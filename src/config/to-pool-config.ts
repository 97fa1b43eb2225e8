import type { ClusterConfig, EngineConfig, PoolSettings } from '../config.ts'
import type { EngineSpec, PoolConfig } from '../core/contract/pool-config.ts'
import { isProvider } from './is-provider.ts'
import { ranksOf } from './ranks.ts'

/**
 * Pool as its PoolState gets it: without addresses, secrets and settings of the edge. A list of the keys to copy, so
 * that a new key stays at the edge unless it is added here.
 */
export function toPoolConfig(cluster: ClusterConfig, pool: PoolSettings): PoolConfig {
  const { policy, shadow, blockTokens, leaseMs, circuit, statsIntervalMs, indexEntries, slo, maxWaiting, queue } = pool
  const { canary, adapterLoading } = pool
  const { mode, thresholdTokens, fallback, roles } = pool.split
  const { share, minPerS } = pool.retry
  return {
    cluster: cluster.id,
    pool: pool.model,
    policy,
    shadow,
    blockTokens,
    split: { mode, thresholdTokens, fallback, ...(roles === undefined ? {} : { roles }) },
    leaseMs,
    retry: { share, minPerS },
    circuit,
    statsIntervalMs,
    indexEntries,
    slo,
    maxWaiting,
    queue,
    ...(adapterLoading === null
      ? {}
      : {
          adapterLoading: {
            adapters: Object.keys(adapterLoading.sources),
            maxPerEngine: adapterLoading.maxPerEngine,
          },
        }),
    ...(pool.reportsAdapters ? { reportsAdapters: true } : {}),
    ...(pool.cost === null ? {} : { countsCosts: true }),
    ...(canary === null ? {} : { canary: { eject: canary.eject } }),
    engines: pool.engines.map((engine) =>
      cluster.gateway === null ? toEngineSpec(engine) : { ...toEngineSpec(engine), isGateway: true },
    ),
  }
}

/** A list of the keys to copy, so that a new key, such as a secret, stays at the edge. */
function toEngineSpec(engine: EngineConfig): EngineSpec {
  const {
    id,
    role,
    models,
    labels,
    weight,
    maxInFlight,
    prefixCaching,
    cacheBlocks,
    contextTokens,
    rttMs,
    profile,
    lmcacheInstance,
  } = engine
  const spec = {
    id,
    role,
    models,
    labels,
    weight,
    maxInFlight,
    cacheBlocks,
    contextTokens,
    rttMs,
    profile,
    lmcacheInstance,
  }
  const ranks = ranksOf(engine)
  if (ranks !== null) return { ...spec, prefixCaching, ranks }
  if (!isProvider(engine)) return { ...spec, prefixCaching }
  return { ...spec, prefixCaching: 'off', isExternal: true }
}
