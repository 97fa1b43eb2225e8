import type { ClusterConfig, EngineConfig, PoolSettings } from '../config.ts'
import type { EngineSpec, PoolConfig } from '../core/contract/pool-config.ts'

/** Pool as its PoolState gets it: without addresses, secrets and settings of the edge. */
export function toPoolConfig(cluster: ClusterConfig, pool: PoolSettings): PoolConfig {
  const { model, split, engines, ...rest } = pool
  const {
    aliases: _aliases,
    adapters: _adapters,
    tokenizer: _tokenizer,
    lmcache: _lmcache,
    limits: _limits,
    discoverIntervalMs: _discoverIntervalMs,
    observeShare: _observeShare,
    session: _session,
    classPriority: _classPriority,
    shards: _shards,
    ...core
  } = rest
  const { mode, thresholdTokens, fallback } = split
  return {
    ...core,
    cluster: cluster.id,
    pool: model,
    split: { mode, thresholdTokens, fallback },
    engines: engines.map((engine) =>
      cluster.gateway === null ? toEngineSpec(engine) : { ...toEngineSpec(engine), isGateway: true },
    ),
  }
}

/** A list of the keys to copy, so that a new key with a secret stays out of the core. */
function toEngineSpec(engine: EngineConfig): EngineSpec {
  const { id, role, models, labels, weight, maxInFlight, prefixCaching, cacheBlocks, rttMs, profile, lmcacheInstance } =
    engine
  const spec = { id, role, models, labels, weight, maxInFlight, cacheBlocks, rttMs, profile, lmcacheInstance }
  if (engine.kind !== 'external') return { ...spec, prefixCaching }
  return { ...spec, prefixCaching: 'off', isExternal: true }
}
