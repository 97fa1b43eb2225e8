/** The step before a request is admitted: what LMCache holds of its prompt, where the choice depends on it. */
import type { PoolSettings } from '../../config.ts'
import { hostOf, InstanceMap } from '../../core/lmcache/instance-map.ts'
import type { CacheHint, StageTimes } from '../../core/cluster/contract.ts'
import { makePolicy } from '../../core/routing/policies/index.ts'
import type { PromptMeasure } from '../../core/tokens/measure.ts'
import type { CacheQuestion, EngineTarget, Ports } from '../../ports.ts'
import type { PoolRoute } from '../exchange.ts'
import { EngineTokenizer, type TokenizeCall } from '../tokenize.ts'
import { Controller } from './controller.ts'
import { Coordinator } from './coordinator.ts'
import { openDeadline } from './deadline.ts'
import { CacheFacts } from './facts.ts'
import { PoolLookup, type LookupCounts } from './pool-lookup.ts'

/** A prompt on its way to a choice. */
export interface Prompted {
  /** As the door measured it. */
  readonly measure: PromptMeasure
  /** Name an engine serves it under; an adapter's where one was asked for. */
  readonly model: string
  readonly adapter: string | null
  /** Salt in force; null: none. */
  readonly salt: string | null
  /** Measures it by an engine's own ids, or gives `measure` back. Never rejects. */
  byEngine(tokenizer: EngineTokenizer, call: TokenizeCall): Promise<PromptMeasure>
  background(work: Promise<unknown>): void
}

export interface Gathered {
  /** By ids where an engine gave them. */
  readonly measure: PromptMeasure
  readonly hints: readonly CacheHint[] | null
  readonly stages: StageTimes
}

/** Every lookup of a gateway: one per pool that has LMCache, and the token ids they ask by. */
export class CacheLookups {
  readonly #ports: Ports
  readonly #tokenizer: EngineTokenizer
  readonly #pools = new Map<PoolRoute, PoolLookup | null>()
  readonly #needing = new Map<PoolSettings, Map<string, boolean>>()
  #turn = 0

  constructor(ports: Ports) {
    this.#ports = ports
    this.#tokenizer = new EngineTokenizer({ origin: ports.origin, now: () => ports.now() })
  }

  /** Would the choice read what a lookup finds? `policy`: what the request asks for itself; null: the pool's. */
  wanted({ pool }: PoolRoute, policy: string | null): boolean {
    if (pool.lmcache === null) return false
    const known = this.#needing.get(pool) ?? new Map<string, boolean>()
    this.#needing.set(pool, known)
    const name = policy ?? ''
    const answer = known.get(name) ?? needsLookup(pool, policy)
    known.set(name, answer)
    return answer
  }

  /** Within the pool's budget, whatever happens. */
  async gather(route: PoolRoute, prompted: Prompted): Promise<Gathered> {
    const lookup = this.#lookupOf(route)
    const { lmcache } = route.pool
    // Keys of an adapter's chunks are nobody's but LMCache's; a base model's match would be none for it.
    if (lookup === null || lmcache === null || prompted.adapter !== null) return { measure: prompted.measure, hints: null, stages: {} }
    const deadline = openDeadline(lmcache.budgetMs)
    try {
      const startedAt = this.#ports.now()
      const measure = await this.#withIds(route, prompted, deadline)
      const lookedUpAt = this.#ports.now()
      const tokens = lookupIds(measure)
      const question = tokens === null ? null : { tokens, salt: prompted.salt, deadline, background: (work: Promise<unknown>) => prompted.background(work) }
      const found = question === null ? null : await lookup.find(question)
      const stages = { ...(measure === prompted.measure ? {} : { tokens: lookedUpAt - startedAt }), lookup: this.#ports.now() - lookedUpAt }
      return { measure, hints: found === null ? null : [...found].flatMap(([engine, matches]) => matches.map((match) => ({ engine, ...match }))), stages }
    } finally {
      deadline.end()
    }
  }

  /** How lookups ended so far; null: none are made for this pool. */
  counts(route: PoolRoute): LookupCounts | null {
    return this.#pools.get(route)?.counts ?? null
  }

  async #withIds(route: PoolRoute, prompted: Prompted, deadline: CacheQuestion['deadline']): Promise<PromptMeasure> {
    const { measure } = prompted
    if (measure.tokenSource !== 'bytes' || measure.items > 0) return measure
    const target = this.#tokenizing(route)
    if (target === null) return measure
    const asked = prompted.byEngine(this.#tokenizer, { target, model: prompted.model, signal: deadline.signal, budgetMs: deadline.budgetMs })
    prompted.background(asked)
    return (await deadline.within(asked))?.value ?? measure
  }

  /** In turn, past those that failed lately. */
  #tokenizing({ targets }: PoolRoute): EngineTarget | null {
    const engines = [...targets.values()]
    for (let tried = 0; tried < engines.length; tried += 1) {
      const target = engines[this.#turn++ % engines.length]!
      if (this.#tokenizer.mayAsk(target)) return target
    }
    return null
  }

  #lookupOf(route: PoolRoute): PoolLookup | null {
    const known = this.#pools.get(route)
    if (known !== undefined) return known
    const made = lookupOf(route, this.#ports)
    this.#pools.set(route, made)
    return made
  }
}

/** Ids a lookup may ask by: of one prompt of text. A picture's ids are not those LMCache hashes. */
function lookupIds({ ids, items }: PromptMeasure): Uint32Array | null {
  return ids === null || items > 0 ? null : ids
}

function needsLookup(pool: PoolSettings, policy: string | null): boolean {
  const acting = policy === null || policy === pool.policy.name ? pool.policy : { name: policy, options: {} }
  return [acting, pool.shadow].some((config) => {
    if (config === null) return false
    const made = makePolicy(config)
    return 'policy' in made && made.policy.needs.some((signal) => signal === 'lookupTokens' || signal === 'cachedTokens')
  })
}

function lookupOf(route: PoolRoute, ports: Ports): PoolLookup | null {
  const { cluster, pool, targets } = route
  const { lmcache } = pool
  const url = lmcache?.coordinator ?? lmcache?.controller ?? null
  if (lmcache === null || url === null) return null
  const headers = Object.entries(lmcache.headers).flatMap(([name, value]) => [name.toLowerCase(), value])
  const target: EngineTarget = { id: 'lmcache', url, headers, binding: lmcache.binding }
  const source = lmcache.coordinator === null ? new Controller(ports.origin, target) : new Coordinator(ports.origin, target)
  const map = new InstanceMap(pool.engines.map(({ id, url: engineUrl, lmcacheInstance }) => ({ id, host: hostOf(engineUrl), instance: lmcacheInstance })))
  const facts = new CacheFacts({ ports, targets, map, source, model: lmcache.model, worldSize: lmcache.worldSize, servedModel: pool.model })
  const names = { cluster: cluster.id, pool: pool.model }
  return new PoolLookup({ ports, source, facts, engines: pool.engines.map(({ id }) => id), shared: lmcache.shared, names })
}
