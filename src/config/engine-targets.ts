import type { ClusterConfig, EngineConfig, PoolSettings } from '../config.ts'
import { hasAdapters } from './pool-names.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import { isProvider } from './is-provider.ts'
import { ranksOf } from './ranks.ts'

/** Base URL and headers of each engine, by engine id. */
export function toTargets(
  pool: PoolSettings,
  { gateway }: Pick<ClusterConfig, 'gateway'> = { gateway: null },
): ReadonlyMap<string, EngineTarget> {
  const more = {
    ...(gateway === null ? {} : { isGateway: true }),
    ...(hasAdapters(pool) ? { hasAdapters: true } : {}),
    ...(pool.reportsAdapters ? { reportsAdapters: true } : {}),
  }
  return new Map(pool.engines.map((engine) => [engine.id, { ...toTarget(engine, pool.model), ...more }]))
}

function toTarget(engine: EngineConfig, poolModel: string): EngineTarget {
  const headers = Object.entries(engine.headers).flatMap(([name, value]) => [name.toLowerCase(), value])
  if (engine.key !== null) headers.push('authorization', `Bearer ${engine.key}`)
  const external = isProvider(engine) ? { external: { model: engine.providerModel ?? poolModel } } : {}
  const type = engine.type === 'auto' ? {} : { type: engine.type }
  const ranks = ranksOf(engine)
  const shared = {
    ...type,
    ...external,
    ...(ranks === null ? {} : { ranks }),
    ...(engine.tls === null ? {} : { tls: engine.tls }),
  }
  return { id: engine.id, url: engine.url, headers, binding: engine.binding, model: poolModel, ...shared }
}
