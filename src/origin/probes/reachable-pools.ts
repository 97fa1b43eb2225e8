import type { Ports } from '../../ports.ts'
import type { Alert } from '../../ports/alerts.ts'
import type { ProbeSignal } from '../../ports/probe.ts'
import type { PoolRoute } from '../pool-route.ts'

const NEXT = 'No engine of this pool passes its health check. Check the addresses with `firstlight doctor`.'

/** Logs pools without an engine that can be reached: a configuration with wrong addresses starts like a right one. */
export class ReachablePools {
  readonly #ports: Pick<Ports, 'log' | 'alerts' | 'now'>
  /** Engines whose last check failed, by pool. */
  readonly #failed = new Map<string, Set<string>>()
  readonly #warned = new Set<string>()

  constructor(ports: Pick<Ports, 'log' | 'alerts' | 'now'>) {
    this.#ports = ports
  }

  checked({ cluster, pool, targets }: PoolRoute, { engine, healthy, problem }: ProbeSignal): void {
    const name = JSON.stringify([cluster.id, pool.model])
    const failed = this.#failed.get(name) ?? new Set()
    this.#failed.set(name, failed)
    const fields = { cluster: cluster.id, model: pool.model }
    const alert = { cluster: cluster.id, pool: pool.model }
    if (healthy) {
      failed.delete(engine)
      if (!this.#warned.delete(name)) return
      this.#ports.log.info('pool_reachable', { ...fields, engine })
      this.#alert({ ...alert, event: 'pool_reachable', state: 'well', did: 'It gets requests again.', next: null })
      return
    }
    failed.add(engine)
    if (this.#warned.has(name) || !ownTargets(targets).every((id) => failed.has(id))) return
    this.#warned.add(name)
    this.#ports.log.warn('pool_unreachable_engines', {
      ...fields,
      engines: failed.size,
      problem: problem ?? null,
      next: NEXT,
    })
    const did = 'Requests for this pool are refused, or go to other clusters.'
    this.#alert({ ...alert, event: 'pool_unreachable_engines', state: 'unreachable', did, next: NEXT })
  }

  #alert(alert: Omit<Alert, 'since' | 'engine' | 'hurt'>): void {
    const { alerts, now } = this.#ports
    alerts.raise({ ...alert, engine: null, since: new Date(now()).toISOString(), hurt: null })
  }
}

/** Engines with health checks: a provider has none. */
const ownTargets = (targets: PoolRoute['targets']): string[] =>
  [...targets.values()].filter(({ kind }) => kind !== 'provider').map(({ id }) => id)
