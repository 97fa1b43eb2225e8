/** LMCache lookups before admission, for policies that read their results. */
import type { PoolSettings } from '../../config.ts'
import type { Admission } from '../../core/contract/admission.ts'
import type { StageTimes } from '../../core/contract/stages.ts'
import { createPolicy } from '../../core/routing/policies/policies.ts'
import type { PromptProfile } from '../../core/tokens/prompt-analyzer.ts'
import type { CacheLookupQuery } from '../../ports/cache-lookup.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { EngineTokenizer, type TokenizeOptions } from '../engine-tokenizer.ts'
import type { PoolRoute } from '../pool-route.ts'
import { type LookupPorts, type LookupStrategy, strategyOf } from './lookup-strategy.ts'
import { openDeadline } from './open-deadline.ts'
import type { LookupCounts } from './pool-lookup.ts'
import type { SkipCounts, SkipReason } from './skipped-lookups.ts'

/** Prompt of a request that is about to be placed. @testing */
export interface LookupInput {
  /** As measured from the request body. */
  readonly profile: PromptProfile
  /** Name under which an engine serves the model; for an adapter, the adapter's name. */
  readonly model: string
  readonly adapter: string | null
  /** Cache salt. null: none. */
  readonly salt: string | null
  /** Measures the prompt by an engine's token ids, or returns `profile`. Never rejects. */
  byEngine(tokenizer: EngineTokenizer, call: TokenizeOptions): Promise<PromptProfile>
  background(work: Promise<unknown>): void
}

interface LookupResult {
  /** By token ids if an engine returned them. */
  readonly profile: PromptProfile
  /** Fields for the admission. */
  readonly known: Pick<Admission, 'hints' | 'chunks'>
  readonly stages: StageTimes
}

/** All lookups of a gateway: one strategy per pool with LMCache, and the tokenizer for their keys. */
export class CacheLookups {
  readonly #ports: LookupPorts
  readonly #tokenizer: EngineTokenizer
  readonly #pools = new Map<PoolRoute, LookupStrategy | null>()
  readonly #needing = new Map<PoolSettings, Map<string, boolean>>()
  #turn = 0

  constructor(ports: LookupPorts) {
    this.#ports = ports
    this.#tokenizer = new EngineTokenizer({ origin: ports.origin, now: () => ports.now() })
  }

  /**
   * Returns whether the policy reads lookup results. `policy`: the request's own choice; null: the pool's.
   * `computesAll`: whether the request computes its whole prompt, whatever is cached.
   */
  wanted({ pool }: PoolRoute, policy: string | null, computesAll: () => boolean): boolean {
    if (pool.lmcache === null || computesAll()) return false
    const known = this.#needing.get(pool) ?? new Map<string, boolean>()
    this.#needing.set(pool, known)
    const name = policy ?? ''
    const answer = known.get(name) ?? needsLookup(pool, policy)
    known.set(name, answer)
    return answer
  }

  /** Looks up within the pool's time budget. Never rejects. */
  async gather(route: PoolRoute, input: LookupInput): Promise<LookupResult> {
    const strategy = this.#strategyOf(route)
    const { lmcache } = route.pool
    const nothing = { profile: input.profile, known: NOTHING, stages: {} }
    if (strategy === null || lmcache === null) return nothing
    // Keys of an adapter's chunks are known only to LMCache, and a match of the base model does not apply to the
    // adapter.
    // Of a chat with images, the ids of the text before the first one are looked up.
    if (input.adapter !== null || (input.profile.items > 0 && input.profile.ids === null)) {
      strategy.skips.count('unsupported')
      return nothing
    }
    const deadline = openDeadline(lmcache.budgetMs, () => this.#ports.now())
    try {
      const startedAt = this.#ports.now()
      const { profile, unread } = await this.#withIds(route, input, deadline)
      const lookedUpAt = this.#ports.now()
      if (profile.ids === null) strategy.skips.count(unread ?? 'unsupported')
      const known =
        profile.ids === null
          ? NOTHING
          : await this.#lookUp(strategy, {
              tokens: profile.ids,
              salt: input.salt,
              deadline,
              background: (work) => input.background(work),
            })
      const stages = {
        ...(profile === input.profile ? {} : { tokens: lookedUpAt - startedAt }),
        lookup: this.#ports.now() - lookedUpAt,
      }
      return { profile, known, stages }
    } finally {
      deadline.end()
    }
  }

  /** Results of lookups so far. null: the pool has none. A registry only counts skipped lookups. */
  counts(route: PoolRoute): PoolLookupCounts | null {
    const strategy = this.#pools.get(route) ?? null
    return strategy && { ...strategy.lookup?.counts, skipped: strategy.skips.counts }
  }

  /** Model name in LMCache's keys. null: unknown, or no such pool. */
  modelOf(route: PoolRoute, background: (work: Promise<unknown>) => void): string | null {
    const metadata = this.#strategyOf(route)?.metadata ?? null
    if (metadata !== null) background(metadata.ready(background))
    return metadata?.model ?? null
  }

  async #lookUp(strategy: LookupStrategy, query: CacheLookupQuery): Promise<LookupResult['known']> {
    if (strategy.lookup === null) return { hints: null, chunks: await strategy.keys.chunks(query) }
    const found = await strategy.lookup.find(query)
    return {
      hints:
        found === null
          ? null
          : [...found].flatMap(([engine, matches]) => matches.map((match) => ({ engine, ...match }))),
    }
  }

  async #withIds(
    route: PoolRoute,
    input: LookupInput,
    deadline: CacheLookupQuery['deadline'],
  ): Promise<TokenizedPrompt> {
    const { profile } = input
    if (profile.tokenSource !== 'bytes') return { profile, unread: null }
    const target = this.#nextTokenizer(route)
    if (target === null) return { profile, unread: 'tokenize_paused' }
    const measuring = input.byEngine(this.#tokenizer, {
      target,
      model: input.model,
      signal: deadline.signal,
      budgetMs: deadline.budgetMs,
    })
    input.background(measuring)
    const measured = await deadline.within(measuring)
    if (measured === null) return { profile, unread: 'tokenize_late' }
    return { profile: measured.value, unread: measured.value.tokenSource === 'bytes' ? 'tokenize_failed' : null }
  }

  /** Chooses an engine for tokenization in turn; skips engines that failed lately. */
  #nextTokenizer({ targets }: PoolRoute): EngineTarget | null {
    const engines = [...targets.values()].filter(({ kind }) => kind !== 'provider')
    for (let tried = 0; tried < engines.length; tried += 1) {
      const target = engines[this.#turn++ % engines.length]!
      if (this.#tokenizer.mayAsk(target)) return target
    }
    return null
  }

  #strategyOf(route: PoolRoute): LookupStrategy | null {
    const known = this.#pools.get(route)
    if (known !== undefined) return known
    const made = strategyOf(route, this.#ports)
    this.#pools.set(route, made)
    return made
  }
}

/** Counts of one pool. */
export type PoolLookupCounts = Partial<LookupCounts> & { readonly skipped: SkipCounts }

/** `unread`: reason for missing token ids. null: an engine returned them, or none was needed. */
interface TokenizedPrompt {
  readonly profile: PromptProfile
  readonly unread: SkipReason | null
}

const NOTHING = { hints: null }

function needsLookup(pool: PoolSettings, policy: string | null): boolean {
  const acting = policy === null || policy === pool.policy.name ? pool.policy : { name: policy, options: {} }
  return [acting, pool.shadow].some((config) => {
    if (config === null) return false
    const made = createPolicy(config)
    return (
      'policy' in made && made.policy.needs.some((signal) => signal === 'lookupTokens' || signal === 'cachedTokens')
    )
  })
}
