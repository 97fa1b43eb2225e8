/** Puts engines to sleep that have had no requests for a while, as many as the pool can spare. */
import type { EngineDigest } from '../../core/contract/pool-digest.ts'
import type { Ports } from '../../ports.ts'
import { canSleep, putToSleep } from '../pause/engine-sleep.ts'
import { poolOf, type PoolRoute } from '../pool-route.ts'

/** Interval of looks at a pool, ms. */
const LOOK_MS = 1_000

type IdlePorts = Pick<Ports, 'pool' | 'origin' | 'now' | 'log'>

export class IdleEngines {
  readonly #ports: IdlePorts
  readonly #route: PoolRoute
  /** Server → when it last had requests, or was found awake. */
  readonly #usedAt = new Map<string, number>()
  #lookedAt = -Infinity
  #isLooking = false

  constructor(ports: IdlePorts, route: PoolRoute) {
    this.#ports = ports
    this.#route = route
  }

  /** Never rejects. */
  async round(): Promise<void> {
    const now = this.#ports.now()
    if (this.#isLooking || now - this.#lookedAt < LOOK_MS) return
    this.#lookedAt = now
    this.#isLooking = true
    try {
      await this.#look(now)
    } catch (error) {
      this.#ports.log.warn('sleep_failed', { model: this.#route.pool.model, error })
    } finally {
      this.#isLooking = false
    }
  }

  async #look(now: number): Promise<void> {
    const { pool, targets } = this.#route
    const { idleS, minAwake } = pool.sleep!
    const { engines, queue } = await poolOf(this.#ports, this.#route).digest()
    const servers = new Map<string, EngineDigest[]>()
    for (const engine of engines) {
      const id = engine.server ?? engine.id
      servers.set(id, [...(servers.get(id) ?? []), engine])
    }
    const awake = [...servers].filter(([, ranks]) => ranks.some(({ available }) => available))
    for (const id of servers.keys()) if (!awake.some(([known]) => known === id)) this.#usedAt.delete(id)
    for (const [id, ranks] of awake) if (!this.#usedAt.has(id) || ranks.some(isUsed)) this.#usedAt.set(id, now)
    if (awake.length <= minAwake || (queue?.requests ?? 0) > 0) return
    const idle = awake.find(([id]) => now - this.#usedAt.get(id)! >= idleS * 1000)?.[0]
    const target = idle === undefined ? undefined : targets.get(idle)
    if (target !== undefined && canSleep(this.#ports, target)) await putToSleep(this.#ports, this.#route, target)
  }
}

/** By this gateway, or by others. */
const isUsed = ({ requests, stats }: EngineDigest): boolean =>
  requests > 0 || (stats !== null && stats.running + stats.waiting > 0)
