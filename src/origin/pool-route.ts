import type { ClusterConfig, PoolSettings } from '../config.ts'
import type { Ports } from '../ports.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { PoolPort } from '../ports/pool.ts'

/** A pool that may serve a request, with the targets of its engines. */
export interface PoolRoute {
  readonly cluster: ClusterConfig
  readonly pool: PoolSettings
  /** Engine id → target. */
  readonly targets: ReadonlyMap<string, EngineTarget>
}

/** State of the route's pool. */
export const poolOf = (ports: Pick<Ports, 'pool'>, { cluster, pool }: PoolRoute): PoolPort =>
  ports.pool(cluster.id, pool.model)

/** Whether the pool has an engine besides this one: another server, or another rank of the same. */
export const hasOtherEngine = ({ targets }: Pick<PoolRoute, 'targets'>, { kind }: EngineTarget): boolean =>
  targets.size > 1 || kind === 'rank'
