import type { Config, PoolSettings } from '../config.ts'
import { byWidth, isPattern, matchesPattern } from '../config/alias-pattern.ts'
import { toTargets } from '../config/engine-targets.ts'
import { Failure } from '../failure.ts'
import type { PoolRoute } from '../origin/pool-route.ts'
import type { Caller } from './auth/caller.ts'
import { mayServe } from './auth/residency.ts'

/** A name that clients may request, with its routes. */
export interface ServedModel {
  readonly name: string
  readonly kind: 'model' | 'alias' | 'adapter'
  /** Base model of the first pool that has the name. */
  readonly base: string
  readonly routes: readonly PoolRoute[]
}

/** The engines' name of the model in this pool, and whether it is an adapter. */
export function engineModel(
  name: string,
  pool: PoolSettings,
): { readonly model: string; readonly adapter: string | null } {
  if (name === pool.model || pool.aliases.includes(name)) return { model: pool.model, adapter: null }
  if (isMatchedIn(name, pool)) return { model: pool.model, adapter: null }
  return { model: name, adapter: name }
}

/** Whether the name is an alias by a pattern. Exact names of adapters take precedence. */
function isMatchedIn(name: string, { aliases, adapters, engines }: PoolSettings): boolean {
  if (!aliases.some((alias) => isPattern(alias) && matchesPattern(name, alias))) return false
  return !adapters.includes(name) && !engines.some(({ models }) => models?.includes(name) === true)
}

/** All names of the configuration, and the adapters that engines report. */
export class ModelRegistry {
  readonly routes: readonly PoolRoute[]
  /** Several pools serve one name. */
  readonly hasChoice: boolean
  readonly #offers: ReadonlyMap<string, ServedModel>
  /** Weighted models, with the routes of their first target. */
  readonly #weighted = new Map<string, ServedModel>()
  /** Aliases that are patterns, the narrowest first. */
  readonly #patterns: readonly ServedModel[]
  #reported: ReadonlyMap<string, ServedModel> = new Map()

  constructor(config: Pick<Config, 'clusters' | 'weightedModels'>) {
    this.routes = config.clusters.flatMap((cluster) =>
      cluster.pools.map((pool): PoolRoute => ({ cluster, pool, targets: toTargets(pool, cluster) })),
    )
    const all = offersOf(this.routes)
    this.hasChoice = [...all.values()].some(({ routes }) => routes.length > 1)
    this.#patterns = [...all.values()].filter(isPatternOffer).sort((a, b) => byWidth(a.name, b.name))
    this.#offers = new Map([...all].filter(([, offer]) => !isPatternOffer(offer)))
    for (const { name, targets } of config.weightedModels) {
      const [first] = targets.flatMap(({ model }) => all.get(model) ?? [])
      if (first !== undefined) this.#weighted.set(name, { ...first, name, kind: 'alias' })
    }
  }

  /** Whether the configuration has the name, or a pattern that matches it. */
  isConfigured(name: string): boolean {
    return (
      this.#offers.has(name) ||
      this.#weighted.has(name) ||
      this.#patterns.some((pattern) => matchesPattern(name, pattern.name))
    )
  }

  /** Replaces the adapters that engines report, which have names that the configuration has not. */
  adoptAdapters(reported: ReadonlyMap<string, ServedModel>): void {
    this.#reported = reported
  }

  /** Names that this caller may use, in the order of the configuration, without patterns. */
  offers(caller: Caller): ServedModel[] {
    return [...this.#offers.values(), ...this.#weighted.values(), ...this.#reported.values()].filter(
      (offer) => mayUseModel(caller, offer.name) && offer.routes.some(({ cluster }) => mayServe(cluster, caller)),
    )
  }

  #find(name: string, caller: Caller): ServedModel | undefined {
    const exact = this.#offers.get(name) ?? this.#weighted.get(name) ?? this.#reported.get(name)
    if (exact !== undefined) return mayUseModel(caller, name) ? exact : undefined
    const pattern = this.#patterns.find((one) => matchesPattern(name, one.name))
    if (pattern === undefined) return undefined
    // A key may have the name, or the pattern.
    return mayUseModel(caller, name) || mayUseModel(caller, pattern.name) ? { ...pattern, name } : undefined
  }

  /** Fails with `model_unknown`, whether or not others may use the name. */
  offer(name: string, caller: Caller): ServedModel {
    const offer = this.#find(name, caller)
    if (offer !== undefined)
      return caller.regions === null && caller.edgeRegions === undefined ? offer : withinRegions(offer, caller)
    throw new Failure(
      'model_unknown',
      `The model '${name.slice(0, 100)}' does not exist or this key may not use it. ${this.hint(caller)}`,
      { param: 'model' },
    )
  }

  /** A target of a weighted model, whose name alone the caller needs to be allowed. */
  target(model: string, caller: Caller): ServedModel {
    return withinRegions(this.#offers.get(model)!, caller)
  }

  /** The caller's names, for an error message. */
  hint(caller: Caller): string {
    const patterns = this.#patterns.filter(({ name }) => mayUseModel(caller, name))
    const names = [...this.offers(caller), ...patterns].map(({ name }) => name)
    if (names.length === 0) return 'There is no model for this key.'
    const more = names.length > 10 ? ` and ${names.length - 10} more (GET /v1/models lists them)` : ''
    return `Models for this key: ${names.slice(0, 10).join(', ')}${more}.`
  }

  /** Route of one pool. null: the configuration no longer has it. */
  route(cluster: string, pool: string): PoolRoute | null {
    return this.routes.find((route) => route.cluster.id === cluster && route.pool.model === pool) ?? null
  }
}

const isPatternOffer = ({ kind, name }: ServedModel): boolean => kind === 'alias' && isPattern(name)

const mayUseModel = (caller: Caller, name: string): boolean => caller.models === null || caller.models.includes(name)

/** The offer without clusters that the caller's requests must not reach. Fails with `model_unknown` if none is left. */
function withinRegions(offer: ServedModel, caller: Caller): ServedModel {
  const routes = offer.routes.filter(({ cluster }) => mayServe(cluster, caller))
  if (routes.length > 0) return routes.length === offer.routes.length ? offer : { ...offer, routes }
  const regions = (caller.regions ?? caller.edgeRegions ?? []).join(', ')
  throw new Failure(
    'model_unknown',
    `The model '${offer.name.slice(0, 100)}' is served in no region that this key may use (${regions}).`,
    { param: 'model' },
  )
}

function offersOf(routes: readonly PoolRoute[]): Map<string, ServedModel> {
  const offers = new Map<string, ServedModel>()
  const add = (name: string, kind: ServedModel['kind'], route: PoolRoute): void => {
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
