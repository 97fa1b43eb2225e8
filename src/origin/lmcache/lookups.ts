/** The step before a request is admitted: what LMCache holds of its prompt, where the choice depends on it. */
import type { LmcacheConfig, PoolSettings } from '../../config.ts'
import { hostOf, InstanceMap } from '../../core/lmcache/instance-map.ts'
import type { Admission, StageTimes } from '../../core/cluster/contract.ts'
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
import { RegistryKeys } from './registry-keys.ts'
import type { CacheSource } from './source.ts'

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
  /** What the admission gets. */
  readonly known: Pick<Admission, 'hints' | 'chunks'>
  readonly stages: StageTimes
}

/** Every lookup of a gateway: one per pool that has LMCache, and the token ids they ask by. */
export class CacheLookups {
  readonly #ports: Ports
  readonly #tokenizer: EngineTokenizer
  readonly #pools = new Map<PoolRoute, Way | null>()
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
    const way = this.#wayOf(route)
    const { lmcache } = route.pool
    // Keys of an adapter's chunks are nobody's but LMCache's; a base model's match would be none for it.
    if (way === null || lmcache === null || prompted.adapter !== null) return { measure: prompted.measure, known: NOTHING, stages: {} }
    const deadline = openDeadline(lmcache.budgetMs, () => this.#ports.now())
    try {
      const startedAt = this.#ports.now()
      const measure = await this.#withIds(route, prompted, deadline)
      const lookedUpAt = this.#ports.now()
      const tokens = lookupIds(measure)
      const known = tokens === null ? NOTHING : await this.#look(way, { tokens, salt: prompted.salt, deadline, background: (work) => prompted.background(work) })
      const stages = { ...(measure === prompted.measure ? {} : { tokens: lookedUpAt - startedAt }), lookup: this.#ports.now() - lookedUpAt }
      return { measure, known, stages }
    } finally {
      deadline.end()
    }
  }

  /** How lookups ended so far; null: none are made for this pool. */
  counts(route: PoolRoute): LookupCounts | null {
    return this.#pools.get(route)?.lookup?.counts ?? null
  }

  /** The model's name in LMCache's keys; null: not known, or no such pool. */
  modelOf(route: PoolRoute, background: (work: Promise<unknown>) => void): string | null {
    const facts = this.#wayOf(route)?.facts ?? null
    if (facts !== null) background(facts.ready(background))
    return facts?.model ?? null
  }

  async #look(way: Way, question: CacheQuestion): Promise<Gathered['known']> {
    if (way.lookup === null) return { hints: null, chunks: await way.keys.chunks(question) }
    const found = await way.lookup.find(question)
    return { hints: found === null ? null : [...found].flatMap(([engine, matches]) => matches.map((match) => ({ engine, ...match }))) }
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

  #wayOf(route: PoolRoute): Way | null {
    const known = this.#pools.get(route)
    if (known !== undefined) return known
    const made = wayOf(route, this.#ports)
    this.#pools.set(route, made)
    return made
  }
}

const NOTHING = { hints: null }

/** How a pool's prompts are looked up: by asking, or by the object itself. */
type Way = { readonly facts: CacheFacts } & ({ readonly lookup: PoolLookup } | { readonly lookup: null; readonly keys: RegistryKeys })

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

function wayOf(route: PoolRoute, ports: Ports): Way | null {
  const { cluster, pool, targets } = route
  const { lmcache } = pool
  if (lmcache === null) return null
  const source = sourceOf(lmcache, ports)
  const map = new InstanceMap(pool.engines.map(({ id, url, lmcacheInstance }) => ({ id, host: hostOf(url), instance: lmcacheInstance })))
  const facts = new CacheFacts({ ports, targets, map, source, model: lmcache.model, worldSize: lmcache.worldSize, servedModel: pool.model })
  const { shared, chunkTokens } = lmcache
  if (source === null) return { facts, lookup: null, keys: new RegistryKeys({ facts, chunkTokens, shared }) }
  const names = { cluster: cluster.id, pool: pool.model }
  return { facts, lookup: new PoolLookup({ ports, source, facts, engines: pool.engines.map(({ id }) => id), shared, names }) }
}

/** null: the gateway itself is the registry. */
function sourceOf({ coordinator, controller, headers, binding }: LmcacheConfig, { origin }: Ports): CacheSource | null {
  const flat = Object.entries(headers).flatMap(([name, value]) => [name.toLowerCase(), value])
  const at = (url: string): EngineTarget => ({ id: 'lmcache', url, headers: flat, binding })
  if (coordinator !== null) return new Coordinator(origin, at(coordinator))
  return controller === null ? null : new Controller(origin, at(controller))
}
