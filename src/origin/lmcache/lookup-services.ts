/**
 * Lookups at LMCache's two directory services: the coordinator (`lmcache coordinator`) and the legacy controller
 * (`lmcache_controller`), as of 0.5.6.
 */
import * as z from 'zod/mini'
import { ChunkSize } from '../../core/lmcache/chunk-size.ts'
import {
  holdersOf,
  type CachePlacement,
  type ChunkRow,
  type Holders,
  type PrefixMatch,
} from '../../core/lmcache/prefix-match.ts'
import { hintsOf } from '../../core/lmcache/cache-hints.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'
import type { CacheLookup, CacheMatch, CacheLookupQuery } from '../../ports/cache-lookup.ts'
import type { Ports } from '../../ports.ts'
import { requestJson, readAs, type CachedPrompt, type CacheSource, type Call, type SkipReason } from './client.ts'
import type { ListedInstance } from '../../core/lmcache/instance-map.ts'
import { BoundedMap } from '../../core/bounded-map.ts'
import type { CacheHint } from '../../core/contract/admission.ts'
import { chainSeed, chainWords } from '../../core/tokens/block-hash.ts'
import { Breaker } from '../breaker.ts'
import type { LmcacheMetadata } from './metadata.ts'

/** Length, ms, of a counting interval. */
const SPAN_MS = 60_000
/** Fewest lookups for a warning. */
const LEAST = 20
const SHARE = 0.1

/** Detects that too many lookups time out; reports at most once per interval. @testing */
export class TimeoutRateMonitor {
  #since = -Infinity
  #asked = 0
  #late = 0
  #rung = false

  /** Records the end of a lookup. Returns the counts if a warning is due, else null. */
  ended(late: boolean, now: number): { readonly late: number; readonly of: number } | null {
    if (now - this.#since >= SPAN_MS) {
      this.#since = now
      this.#asked = 0
      this.#late = 0
      this.#rung = false
    }
    this.#asked += 1
    if (late) this.#late += 1
    if (this.#rung || this.#asked < LEAST || this.#late < SHARE * this.#asked) return null
    this.#rung = true
    return { late: this.#late, of: this.#asked }
  }
}

interface PoolLookupOptions {
  readonly ports: Pick<Ports, 'now' | 'log'>
  readonly source: CacheSource
  readonly facts: LmcacheMetadata
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

type Found = ReadonlyMap<string, readonly CacheMatch[]> | null

/** Looks up the prompts of one pool. Equal concurrent lookups share one call; a circuit skips a failing service. */
export class PoolLookup implements CacheLookup {
  readonly #options: PoolLookupOptions
  readonly #breaker = new Breaker()
  readonly #alarm = new TimeoutRateMonitor()
  readonly #asked = new Map<string, { readonly answer: Promise<Holders>; readonly since: number }>()
  /** First chunk of a prompt → end of the cached empty result. */
  readonly #empty = new BoundedMap<string, number>(EMPTY_KEPT)
  readonly #counts = { found: 0, empty: 0, late: 0, failed: 0 }

  constructor(options: PoolLookupOptions) {
    this.#options = options
  }

  get counts(): LookupCounts {
    return { ...this.#counts }
  }

  async find(question: CacheLookupQuery): Promise<Found> {
    const { facts, source } = this.#options
    const { deadline, tokens } = question
    // A lookup that got little of the budget is no failure of the service.
    const unfair = deadline.leftMs < deadline.budgetMs / 2
    if (tokens.length < source.leastTokens || this.#isEmpty(question)) {
      this.#counts.empty += 1
      return NOTHING
    }
    if (!this.#breaker.admits(this.#now)) {
      this.#options.skipped('circuit_open')
      return null
    }
    try {
      if ((await deadline.within(facts.ready((work) => question.background(work)))) === null) return this.#late(unfair)
      const model = facts.model ?? ''
      if (source.needs.model && model === '')
        return this.#failed(new Error('the model’s name in LMCache’s keys is not known'))
      const holders = await deadline.within(
        this.#ask({ tokens, salt: question.salt ?? '', model, worldSize: facts.worldSize }, question),
      )
      return holders === null ? this.#late(unfair) : this.#answered(holders.value, question)
    } catch (error) {
      return deadline.isOver ? this.#late(unfair) : this.#failed(error)
    }
  }

  #ask(prompt: CachedPrompt, question: CacheLookupQuery): Promise<Holders> {
    const key = keyOf(prompt, prompt.tokens.length)
    const known = this.#asked.get(key)
    if (known !== undefined && this.#now - known.since < LOST_AFTER_MS) return known.answer
    const answer = this.#options.source.holders(prompt, question.deadline).finally(() => this.#asked.delete(key))
    this.#asked.set(key, { answer, since: this.#now })
    // The waiting requests may have ended before the call fails.
    question.background(answer.catch(() => {}))
    return answer
  }

  #answered(holders: Holders, question: CacheLookupQuery): Found {
    const { facts, engines, shared } = this.#options
    this.#breaker.succeeded()
    this.#ended(false)
    for (const instance of holders.instances.keys()) if (!facts.map.knows(instance)) facts.sawUnknown()
    const hints = hintsOf(holders, { pairs: facts.map.pairs(), engines, shared, promptTokens: question.tokens.length })
    if (holders.instances.size === 0 && holders.shared === 0) this.#rememberEmpty(question)
    this.#counts[hints.length === 0 ? 'empty' : 'found'] += 1
    return byEngine(hints)
  }

  #late(unfair: boolean): null {
    this.#counts.late += 1
    if (!unfair) this.#breaker.failed(this.#now)
    this.#ended(true)
    return null
  }

  #failed(error: unknown): null {
    this.#counts.failed += 1
    this.#breaker.failed(this.#now)
    this.#ended(false)
    this.#options.ports.log.debug('lmcache_lookup_failed', { ...this.#options.names, error })
    if (this.#breaker.isOpen(this.#now))
      this.#options.ports.log.warn('lmcache_refused', { ...this.#options.names, error })
    return null
  }

  #ended(late: boolean): void {
    const alarm = this.#alarm.ended(late, this.#now)
    if (alarm !== null)
      this.#options.ports.log.warn('lmcache_lookups_late', {
        ...this.#options.names,
        ...alarm,
        next: 'raise lmcache.budget_ms or look at the coordinator',
      })
  }

  #isEmpty(question: CacheLookupQuery): boolean {
    const until = this.#empty.get(this.#firstKey(question))
    return until !== undefined && this.#now < until
  }

  #rememberEmpty(question: CacheLookupQuery): void {
    const key = this.#firstKey(question)
    this.#empty.set(key, this.#now + EMPTY_MS)
  }

  /** Key of the first chunk: chunks match in order, so a prompt whose first chunk has no holder has none at all. */
  #firstKey({ tokens, salt }: CacheLookupQuery): string {
    const { leastTokens } = this.#options.source
    return keyOf(
      { tokens, salt: salt ?? '', model: '', worldSize: 1 },
      leastTokens === 0 ? tokens.length : Math.min(leastTokens, tokens.length),
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

function byEngine(hints: readonly CacheHint[]): Found {
  const found = new Map<string, CacheMatch[]>()
  for (const { engine, matchedTokens, tier } of hints)
    found.set(engine, [...(found.get(engine) ?? []), { matchedTokens, tier }])
  return found
}

/**
 * Location and end of each holder, as a pair. Today one holder; with LMCache#4471 every holder of a contiguous prefix.
 */
const controllerLookupAnswer = z.object({
  layout_info: z.record(z.string(), z.array(z.union([z.string(), z.int().check(z.gte(0))]))),
})
const instanceAnswer = z.object({ res: z.nullish(z.string()) })

/** Largest number of concurrent lookups. */
const AT_ONCE = 8

export class Controller implements CacheSource {
  readonly needs = { model: false }
  /** It also counts an incomplete last chunk. */
  readonly leastTokens = 0
  readonly #origin: Origin
  readonly #target: EngineTarget

  constructor(origin: Origin, target: EngineTarget) {
    this.#origin = origin
    this.#target = target
  }

  async holders({ tokens }: CachedPrompt, call: Call): Promise<Holders> {
    const answer = await requestJson(this.#origin, this.#target, {
      method: 'POST',
      path: '/lookup',
      body: { tokens: Array.from(tokens) },
      ...call,
    })
    const { layout_info: layout } = readAs(controllerLookupAnswer, answer)
    return {
      instances: new Map(
        Object.entries(layout).map(([instance, [location, end]]) => [
          instance,
          reachOf(String(location), Number(end) || 0),
        ]),
      ),
      shared: 0,
    }
  }

  async instances(hosts: readonly string[], call: Call): Promise<readonly ListedInstance[]> {
    const found: ListedInstance[] = []
    for (let from = 0; from < hosts.length; from += AT_ONCE) {
      const group = hosts.slice(from, from + AT_ONCE)
      const answers = await Promise.allSettled(
        group.map((ip) =>
          requestJson(this.#origin, this.#target, {
            method: 'POST',
            path: '/query_instance',
            body: { event_id: `firstlight-${ip}`, ip },
            ...call,
          }),
        ),
      )
      for (const [index, answer] of answers.entries()) {
        // For an unregistered host some versions return an error, others null.
        const instance = answer.status === 'fulfilled' ? instanceAnswer.safeParse(answer.value).data?.res : null
        if (instance) found.push({ id: instance, host: group[index]! })
      }
    }
    return found
  }

  async worldSize(): Promise<null> {
    return null
  }
}

/**
 * Maps the controller's locations, which are names of its backends: LocalCPUBackend, LocalDiskBackend, RemoteBackend
 * and others.
 */
function reachOf(location: string, tokens: number): PrefixMatch {
  if (/cpu/i.test(location)) return { host: tokens, disk: tokens, remote: tokens }
  if (/disk|gds/i.test(location)) return { host: 0, disk: tokens, remote: tokens }
  return { host: 0, disk: 0, remote: tokens }
}

/** The coordinator's own limit of tokens per lookup. */
const MOST_TOKENS = 1_000_000

const placement = z.object({
  instance_id: z.string(),
  tier: z.string(),
  shared: z.optional(z.boolean()),
})
const lookupAnswer = z.object({
  chunks: z.int().check(z.gte(0)),
  results: z.array(
    z.object({
      key: z.object({ chunk_hash_hex: z.string() }),
      placements: z.array(placement),
    }),
  ),
})
const instancesAnswer = z.object({ instances: z.array(z.object({ instance_id: z.string(), ip: z.string() })) })
const keysAnswer = z.object({
  keys: z.array(z.object({ key: z.object({ model_name: z.string(), kv_rank: z.int() }) })),
})

export class Coordinator implements CacheSource {
  readonly needs = { model: true }
  readonly #origin: Origin
  readonly #target: EngineTarget
  readonly #chunk = new ChunkSize()

  constructor(origin: Origin, target: EngineTarget) {
    this.#origin = origin
    this.#target = target
  }

  get leastTokens(): number {
    return this.#chunk.known ? this.#chunk.tokens : 0
  }

  async holders({ tokens, salt, model, worldSize }: CachedPrompt, call: Call) {
    const sent = tokens.length > MOST_TOKENS ? tokens.subarray(0, MOST_TOKENS) : tokens
    const body = { token_ids: Array.from(sent), model_name: model, world_size: worldSize, cache_salt: salt }
    const answer = readAs(
      lookupAnswer,
      await requestJson(this.#origin, this.#target, { method: 'POST', path: '/directory/lookup', body, ...call }),
    )
    if (answer.chunks > sent.length) throw new Error(`${answer.chunks} chunks in a prompt of ${sent.length} tokens`)
    const chunks = rowsByChunk(answer.results)
    if (chunks.length !== answer.chunks) throw new Error(`${answer.chunks} chunks announced, ${chunks.length} came`)
    this.#chunk.learn(sent.length, answer.chunks)
    return holdersOf(chunks, this.#chunk.tokens)
  }

  async instances(_hosts: readonly string[], call: Call) {
    const { instances } = readAs(
      instancesAnswer,
      await requestJson(this.#origin, this.#target, { method: 'GET', path: '/instances', ...call }),
    )
    return instances.map(({ instance_id: id, ip }) => ({ id, host: ip }))
  }

  async worldSize(model: string, call: Call) {
    const { keys } = readAs(
      keysAnswer,
      await requestJson(this.#origin, this.#target, { method: 'GET', path: '/directory/keys?limit=100', ...call }),
    )
    const known = keys.find(({ key }) => key.model_name === model)
    // Packed as world_size << 24 | global_rank << 16 | local_world_size << 8 | local_rank.
    const size = known === undefined ? 0 : (known.key.kv_rank >>> 24) & 0xff
    return size === 0 ? null : size
  }
}

/** Groups rows by chunk; rows arrive in the order of chunks. */
function rowsByChunk(results: z.infer<typeof lookupAnswer>['results']): ChunkRow[][] {
  const chunks: ChunkRow[][] = []
  let last: string | null = null
  for (const { key, placements } of results) {
    if (key.chunk_hash_hex !== last) chunks.push([])
    last = key.chunk_hash_hex
    chunks.at(-1)!.push(placements.flatMap(readPlacement))
  }
  return chunks
}

/** Tiers of later versions are ignored. */
function readPlacement({ instance_id: instance, tier, shared = false }: z.infer<typeof placement>): CachePlacement[] {
  return tier === 'l1' || tier === 'l2' ? [{ instance, level: tier, shared }] : []
}
