import { BoundedMap } from '../../core/bounded-map.ts'
import type { CacheHint } from '../../core/contract/admission.ts'
import { hintsOf } from '../../core/lmcache/cache-hints.ts'
import type { Holders } from '../../core/lmcache/prefix-match.ts'
import { chainSeed, chainWords } from '../../core/tokens/block-hash.ts'
import type { Ports } from '../../ports.ts'
import type { CacheLookup, CacheLookupQuery, CacheMatch } from '../../ports/cache-lookup.ts'
import { ServiceCircuit } from '../service-circuit.ts'
import type { CachedPrompt, CacheSource } from './cache-source.ts'
import type { LmcacheMetadata } from './lmcache-metadata.ts'
import type { SkipReason } from './skipped-lookups.ts'
import { TimeoutRateMonitor } from './timeout-rate-monitor.ts'

interface PoolLookupOptions {
  readonly ports: Pick<Ports, 'now' | 'log'>
  readonly source: CacheSource
  readonly metadata: LmcacheMetadata
  /** Ids of the pool's engines. */
  readonly engines: readonly string[]
  readonly shared: boolean
  /** Called for each skipped lookup. */
  readonly skipped: (reason: SkipReason) => void
  /** For the log: cluster and model. */
  readonly names: Readonly<Record<string, string>>
}

/** Results of a pool's lookups since the start. */
export interface LookupCounts {
  /** Lookups with a match on an engine of the pool. */
  readonly found: number
  /** Lookups without a holder, by a response or from the cache of such responses. */
  readonly empty: number
  /** Lookups that reached the deadline. */
  readonly late: number
  readonly failed: number
}

/** Time, ms, for which an empty result is cached. LMCache reports stored chunks within one to three seconds. */
const EMPTY_MS = 2_000

const EMPTY_KEPT = 4_096

/** Time, ms, after which a lookup counts as lost. On Workers it may end with the request that started it. */
const LOST_AFTER_MS = 1_000

const NOTHING: ReadonlyMap<string, readonly CacheMatch[]> = new Map()

type MatchesByEngine = ReadonlyMap<string, readonly CacheMatch[]> | null

/** Looks up the prompts of one pool. Equal concurrent lookups share one call; a circuit skips a failing service. */
export class PoolLookup implements CacheLookup {
  readonly #options: PoolLookupOptions
  readonly #circuit = new ServiceCircuit()
  readonly #warning = new TimeoutRateMonitor()
  readonly #pending = new Map<string, { readonly answer: Promise<Holders>; readonly since: number }>()
  /** First chunk of a prompt → end of the cached empty result. */
  readonly #empty = new BoundedMap<string, number>(EMPTY_KEPT)
  readonly #counts = { found: 0, empty: 0, late: 0, failed: 0 }

  constructor(options: PoolLookupOptions) {
    this.#options = options
  }

  get counts(): LookupCounts {
    return { ...this.#counts }
  }

  async find(query: CacheLookupQuery): Promise<MatchesByEngine> {
    const { metadata, source } = this.#options
    const { deadline, tokens } = query
    // A lookup that got little of the budget is no failure of the service.
    const isShort = deadline.leftMs < deadline.budgetMs / 2
    if (tokens.length < source.minTokens || this.#isEmpty(query)) {
      this.#counts.empty += 1
      return NOTHING
    }
    if (!this.#circuit.admits(this.#now)) {
      this.#options.skipped('circuit_open')
      return null
    }
    try {
      if ((await deadline.within(metadata.ready((work) => query.background(work)))) === null) return this.#late(isShort)
      const model = metadata.model ?? ''
      if (source.needs.model && model === '')
        return this.#failed(new Error('the model’s name in LMCache’s keys is not known'))
      const holders = await deadline.within(
        this.#sharedLookup({ tokens, salt: query.salt ?? '', model, worldSize: metadata.worldSize }, query),
      )
      return holders === null ? this.#late(isShort) : this.#answered(holders.value, query)
    } catch (error) {
      return deadline.isOver ? this.#late(isShort) : this.#failed(error)
    }
  }

  #sharedLookup(prompt: CachedPrompt, query: CacheLookupQuery): Promise<Holders> {
    const key = keyOf(prompt, prompt.tokens.length)
    const known = this.#pending.get(key)
    if (known !== undefined && this.#now - known.since < LOST_AFTER_MS) return known.answer
    const answer = this.#options.source.holders(prompt, query.deadline).finally(() => this.#pending.delete(key))
    this.#pending.set(key, { answer, since: this.#now })
    // The waiting requests may have ended before the call fails.
    query.background(answer.catch(() => {}))
    return answer
  }

  #answered(holders: Holders, query: CacheLookupQuery): MatchesByEngine {
    const { metadata, engines, shared } = this.#options
    this.#circuit.succeeded()
    this.#ended(false)
    for (const instance of holders.instances.keys()) if (!metadata.map.knows(instance)) metadata.sawUnknown()
    const hints = hintsOf(holders, { pairs: metadata.map.pairs(), engines, shared, promptTokens: query.tokens.length })
    if (holders.instances.size === 0 && holders.shared === 0) this.#rememberEmpty(query)
    this.#counts[hints.length === 0 ? 'empty' : 'found'] += 1
    return byEngine(hints)
  }

  #late(isShort: boolean): null {
    this.#counts.late += 1
    if (!isShort) this.#circuit.failed(this.#now)
    this.#ended(true)
    return null
  }

  #failed(error: unknown): null {
    this.#counts.failed += 1
    this.#circuit.failed(this.#now)
    this.#ended(false)
    this.#options.ports.log.debug('lmcache_lookup_failed', { ...this.#options.names, error })
    if (this.#circuit.isOpen(this.#now))
      this.#options.ports.log.warn('lmcache_refused', { ...this.#options.names, error })
    return null
  }

  #ended(late: boolean): void {
    const warning = this.#warning.record(late, this.#now)
    if (warning !== null)
      this.#options.ports.log.warn('lmcache_lookups_late', {
        ...this.#options.names,
        ...warning,
        next: 'raise lmcache.budget_ms, or check the load of the coordinator',
      })
  }

  #isEmpty(query: CacheLookupQuery): boolean {
    const until = this.#empty.get(this.#firstKey(query))
    return until !== undefined && this.#now < until
  }

  #rememberEmpty(query: CacheLookupQuery): void {
    const key = this.#firstKey(query)
    this.#empty.set(key, this.#now + EMPTY_MS)
  }

  /** Key of the first chunk: chunks match in order, so a prompt whose first chunk has no holder has none at all. */
  #firstKey({ tokens, salt }: CacheLookupQuery): string {
    const { minTokens } = this.#options.source
    return keyOf(
      { tokens, salt: salt ?? '', model: '', worldSize: 1 },
      minTokens === 0 ? tokens.length : Math.min(minTokens, tokens.length),
    )
  }

  get #now(): number {
    return this.#options.ports.now()
  }
}

function keyOf({ tokens, salt, model, worldSize }: CachedPrompt, length: number): string {
  const state = chainSeed({ model, adapter: null, salts: [salt], tenant: null, unit: 'ids', blockTokens: worldSize })
  chainWords(state, tokens, 0, length)
  return `${state.lo}:${state.hi}:${length}`
}

function byEngine(hints: readonly CacheHint[]): MatchesByEngine {
  const matches = new Map<string, CacheMatch[]>()
  for (const { engine, matchedTokens, tier } of hints)
    matches.set(engine, [...(matches.get(engine) ?? []), { matchedTokens, tier }])
  return matches
}
