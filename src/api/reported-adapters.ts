import { isModelName } from '../config/fields.ts'
import { maxReportedAdapters } from '../core/contract/pool-digest.ts'
import { poolOf, type PoolRoute } from '../origin/pool-route.ts'
import type { Ports } from '../ports.ts'
import type { ModelRegistry, ServedModel } from './model-registry.ts'

/** Age, ms, at which the adapters are read again. */
const FRESH_MS = 2_000
/** The same while no engine of some pool has reported any. */
const INCOMPLETE_MS = 500

/** Log entries about names that are not served, at most: engines choose the names. */
const MAX_LOGGED = 1_000

interface ReportedAdapterParts {
  readonly ports: Pick<Ports, 'pool' | 'log' | 'now'>
  readonly models: Pick<ModelRegistry, 'routes' | 'isConfigured' | 'adoptAdapters'>
}

/** Names that clients may request because engines of a pool with `adapters: auto` report them. */
export class ReportedAdapters {
  readonly #parts: ReportedAdapterParts
  readonly #routes: readonly PoolRoute[]
  readonly #names = new Map<PoolRoute, readonly string[]>()
  #readAt: number | null = null
  readonly #logged = new Set<string>()

  private constructor(parts: ReportedAdapterParts, routes: readonly PoolRoute[]) {
    this.#parts = parts
    this.#routes = routes
  }

  /** null: no pool has `adapters: auto`. */
  static of(parts: ReportedAdapterParts): ReportedAdapters | null {
    const routes = parts.models.routes.filter(({ pool }) => pool.reportsAdapters)
    return routes.length === 0 ? null : new ReportedAdapters(parts, routes)
  }

  /** Reads the adapters if the name may be one of them, before it is looked up. */
  async refreshFor(name: string): Promise<void> {
    if (!this.#parts.models.isConfigured(name)) await this.refresh()
  }

  /** Gives the registry the adapters that engines report now, if it has old ones. */
  async refresh(): Promise<void> {
    const { ports, models } = this.#parts
    const now = ports.now()
    const keptMs = this.#names.size < this.#routes.length ? INCOMPLETE_MS : FRESH_MS
    if (this.#readAt !== null && now - this.#readAt < keptMs) return
    // Other requests use the names of before. Without any they read, too: on Workers none can wait for another's I/O.
    if (this.#readAt !== null) this.#readAt = now
    await Promise.all(this.#routes.map((route) => this.#read(route)))
    this.#readAt = now
    models.adoptAdapters(this.#offers())
  }

  async #read(route: PoolRoute): Promise<void> {
    const { cluster, pool } = route
    const { ports } = this.#parts
    try {
      const { engines } = await poolOf(ports, route).digest()
      const lists = engines.flatMap(({ loadedAdapters }) => (loadedAdapters === undefined ? [] : [loadedAdapters]))
      // State that is new has no list of any engine until the next probe.
      if (lists.length === 0) return
      const names = [...new Set(lists.flat())].filter(isModelName)
      for (const name of names.slice(maxReportedAdapters))
        this.#logOnce(route, name, `the pool has ${maxReportedAdapters} already`)
      this.#names.set(route, names.slice(0, maxReportedAdapters))
    } catch (error) {
      ports.log.warn('digest_unreachable', { cluster: cluster.id, pool: pool.model, error })
    }
  }

  /** Offers by name. The configuration has precedence, then the first pool. */
  #offers(): ReadonlyMap<string, ServedModel> {
    const offers = new Map<string, ServedModel>()
    for (const route of this.#routes) {
      const base = route.pool.model
      for (const name of this.#names.get(route) ?? []) {
        const known = offers.get(name)
        if (this.#parts.models.isConfigured(name)) this.#logOnce(route, name, 'the configuration has this name')
        else if (known === undefined) offers.set(name, { name, kind: 'adapter', base, routes: [route] })
        else if (known.base !== base) this.#logOnce(route, name, `the pool ${known.base} has this name`)
        else offers.set(name, { ...known, routes: [...known.routes, route] })
      }
    }
    return offers
  }

  #logOnce({ cluster, pool }: PoolRoute, adapter: string, cause: string): void {
    const key = JSON.stringify([cluster.id, pool.model, adapter])
    if (this.#logged.has(key) || this.#logged.size >= MAX_LOGGED) return
    this.#logged.add(key)
    this.#parts.ports.log.warn('adapter_not_served', { cluster: cluster.id, pool: pool.model, adapter, cause })
  }
}
