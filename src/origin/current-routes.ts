import type { EngineTarget } from '../ports/engine-target.ts'
import type { PoolRoute } from './pool-route.ts'

/**
 * Routes of the newest configuration in this process. A request keeps the configuration that accepted it, and may wait
 * for an engine that was discovered later.
 */
export class CurrentRoutes {
  #routes: readonly PoolRoute[] = []

  adopt(routes: readonly PoolRoute[]): void {
    this.#routes = routes
  }

  /** Adds the engines of the newest configuration to an older route of the same pool. */
  extend({ cluster, pool, targets }: PoolRoute): void {
    const current = this.#routes.find((route) => route.cluster.id === cluster.id && route.pool.model === pool.model)
    for (const [id, target] of current?.targets ?? [])
      if (!targets.has(id)) (targets as Map<string, EngineTarget>).set(id, target)
  }
}
