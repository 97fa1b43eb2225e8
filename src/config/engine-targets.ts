import type { ClusterConfig, EngineConfig, PoolSettings } from '../config.ts'
import type { EngineTarget, ServerTarget } from '../ports/engine-target.ts'
import { isProvider } from './is-provider.ts'
import { hasAdapters } from './pool-names.ts'
import { ranksOf } from './ranks.ts'

/** Base URL and headers of each engine, by engine id. */
export function toTargets(
  pool: PoolSettings,
  cluster: Pick<ClusterConfig, 'gateway'> = { gateway: null },
): ReadonlyMap<string, EngineTarget> {
  return new Map(pool.engines.map((engine) => [engine.id, toTarget(engine, pool, cluster)]))
}

function toTarget(engine: EngineConfig, pool: PoolSettings, { gateway }: Pick<ClusterConfig, 'gateway'>): EngineTarget {
  const address = addressOf(engine, pool.model)
  if (gateway !== null) return { kind: 'gateway', ...address }
  if (isProvider(engine)) return { kind: 'provider', ...address, providerModel: engine.providerModel ?? pool.model }
  return { kind: 'server', ...address, ...traitsOf(engine, pool) }
}

type Address = Pick<EngineTarget, 'id' | 'url' | 'headers' | 'binding' | 'tls' | 'model'>

function addressOf({ id, url, headers: configured, key, binding, tls }: EngineConfig, model: string): Address {
  const headers = Object.entries(configured).flatMap(([name, value]) => [name.toLowerCase(), value])
  if (key !== null) headers.push('authorization', `Bearer ${key}`)
  return { id, url, headers, binding, model, ...(tls === null ? {} : { tls }) }
}

function traitsOf(engine: EngineConfig, pool: PoolSettings): Omit<ServerTarget, keyof Address | 'kind'> {
  const ranks = ranksOf(engine)
  return {
    ...(engine.type === 'auto' ? {} : { type: engine.type }),
    ...(ranks === null ? {} : { ranks }),
    ...(hasAdapters(pool) ? { hasAdapters: true } : {}),
    ...(pool.reportsAdapters ? { reportsAdapters: true } : {}),
  }
}
