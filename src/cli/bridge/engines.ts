/** Engines of a configuration whose KV events a bridge forwards. */
import type { Config, EngineConfig, PoolSettings } from '../../config.ts'
import { isProvider } from '../../config/is-provider.ts'
import type { BridgedEngine } from './engine-listener.ts'

/** An engine of the configuration, before its event endpoints are known. */
export interface BridgeEngine extends Omit<BridgedEngine, 'events'> {
  readonly config: EngineConfig
}

/** Lists all engines of a configuration. Engines behind another gateway belong to that gateway. */
export function enginesIn(config: Config): BridgeEngine[] {
  const own = config.clusters.filter(({ gateway }) => gateway === null)
  return own.flatMap(({ id: cluster, pools }) =>
    pools.flatMap((pool) =>
      pool.engines.filter((engine) => !isProvider(engine)).map((engine) => bridgeEngines(cluster, pool, engine)),
    ),
  )
}

function bridgeEngines(cluster: string, { model, blockTokens }: PoolSettings, config: EngineConfig): BridgeEngine {
  return { cluster, pool: { model, blockTokens }, id: config.id, config }
}
