import type { ClusterConfig, PoolSettings } from '../config.ts'
import type { EngineTarget } from '../ports/engine-target.ts'

/** A pool that may serve a request, with the targets of its engines. */
export interface PoolRoute {
  readonly cluster: ClusterConfig
  readonly pool: PoolSettings
  /** Engine id → target. */
  readonly targets: ReadonlyMap<string, EngineTarget>
}

/** Whether the pool has an engine besides this one: another server, or another rank of the same. */
export const hasOtherEngine = ({ targets }: Pick<PoolRoute, 'targets'>, { kind }: EngineTarget): boolean =>
  targets.size > 1 || kind === 'rank'
