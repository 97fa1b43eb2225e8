import type { Config, PoolSettings } from '../config.ts'
import { toTargets } from '../config/pool.ts'
import type { PoolRoute } from '../origin/exchange.ts'
import { Failure } from '../failure.ts'
import type { Caller } from './keys.ts'

/** One name a client may ask for, and who serves it. */
export interface Offer {
  readonly name: string
  readonly kind: 'model' | 'alias' | 'adapter'
  /** Base model of the first pool that has the name. */
  readonly base: string
  readonly routes: readonly PoolRoute[]
}

/** The name an engine of this pool knows the model under, and whether that is an adapter. */
export function engineModel(name: string, pool: PoolSettings): { readonly model: string; readonly adapter: string | null } {
  if (name === pool.model || pool.aliases.includes(name)) return { model: pool.model, adapter: null }
  return { model: name, adapter: name }
}

/** All names of the configuration. Built once; nothing of it asks an engine. */
export class Catalog {
  readonly routes: readonly PoolRoute[]
  readonly #offers: ReadonlyMap<string, Offer>

  constructor(config: Pick<Config, 'clusters'>) {
    this.routes = config.clusters.flatMap((cluster) =>
      cluster.pools.map((pool): PoolRoute => ({ cluster, pool, targets: toTargets(pool, cluster) })),
    )
    this.#offers = offersOf(this.routes)
  }

  /** Names this caller may use, in the order of the configuration. */
  offers(caller: Caller): Offer[] {
    return [...this.#offers.values()].filter((offer) => mayUse(caller, offer.name))
  }

  /** Fails with `model_unknown`; whether others may use the name is not told. */
  offer(name: string, caller: Caller): Offer {
    const offer = mayUse(caller, name) ? this.#offers.get(name) : undefined
    if (offer !== undefined) return offer
    throw new Failure('model_unknown', `The model '${name.slice(0, 100)}' does not exist or this key may not use it. ${this.hint(caller)}`, { param: 'model' })
  }

  /** The names a caller may use, for an error message. */
  hint(caller: Caller): string {
    const names = this.offers(caller).map(({ name }) => name)
    if (names.length === 0) return 'There is no model for this key.'
    const more = names.length > 10 ? ` and ${names.length - 10} more (GET /v1/models lists them)` : ''
    return `Models for this key: ${names.slice(0, 10).join(', ')}${more}.`
  }

  /** The route of one pool; null when the configuration no longer has it. */
  route(cluster: string, pool: string): PoolRoute | null {
    return this.routes.find((route) => route.cluster.id === cluster && route.pool.model === pool) ?? null
  }
}

const mayUse = (caller: Caller, name: string): boolean => caller.models === null || caller.models.includes(name)

function offersOf(routes: readonly PoolRoute[]): Map<string, Offer> {
  const offers = new Map<string, Offer>()
  const add = (name: string, kind: Offer['kind'], route: PoolRoute): void => {
    const known = offers.get(name)
    if (known === undefined) offers.set(name, { name, kind, base: route.pool.model, routes: [route] })
    else if (!known.routes.includes(route)) offers.set(name, { ...known, routes: [...known.routes, route] })
  }
  for (const route of routes) {
    const { model, aliases, adapters, engines } = route.pool
    add(model, 'model', route)
    for (const alias of aliases) add(alias, 'alias', route)
    for (const adapter of adapters) add(adapter, 'adapter', route)
    for (const name of engines.flatMap((engine) => engine.models ?? [])) {
      if (name !== model && !aliases.includes(name)) add(name, 'adapter', route)
    }
  }
  return offers
}
