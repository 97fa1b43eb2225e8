import type { Log } from '../ports/log.ts'
import type { ProbeSignal } from '../ports/probe.ts'
import type { PoolRoute } from './pool-route.ts'

/** Logs pools without an engine that can be reached: a configuration with wrong addresses starts like a right one. */
export class ReachablePools {
  readonly #log: Log
  /** Engines whose last check failed, by pool. */
  readonly #failed = new Map<string, Set<string>>()
  readonly #warned = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  checked({ cluster, pool, targets }: PoolRoute, { engine, healthy, problem }: ProbeSignal): void {
    const name = JSON.stringify([cluster.id, pool.model])
    const failed = this.#failed.get(name) ?? new Set()
    this.#failed.set(name, failed)
    const fields = { cluster: cluster.id, model: pool.model }
    if (healthy) {
      failed.delete(engine)
      if (this.#warned.delete(name)) this.#log.info('pool_reachable', { ...fields, engine })
      return
    }
    failed.add(engine)
    if (this.#warned.has(name) || !ownTargets(targets).every((id) => failed.has(id))) return
    this.#warned.add(name)
    this.#log.warn('pool_unreachable_engines', {
      ...fields,
      engines: failed.size,
      problem: problem ?? null,
      next: 'No engine of this pool passes its health check. Check the addresses with `firstlight doctor`.',
    })
  }
}

/** Engines with health checks: a provider has none. */
const ownTargets = (targets: PoolRoute['targets']): string[] =>
  [...targets.values()].filter(({ external }) => external === undefined).map(({ id }) => id)
