import { DEFAULT_LOADING_COSTS } from '../../../../src/core/latency/loading-costs.ts'
import type { FetchSource } from '../../../simulator/src/engine-model.ts'
import { keyAt } from '../../../simulator/src/block-keys.ts'
import type { ExternalCache } from './vllm-engine.ts'

/** LMCache at each engine: capacity by tier, and load times. */
export interface LmcacheOptions {
  /** Capacity in tokens of each node's memory and disk, and of the shared store. 0: no such tier. */
  readonly hostTokens: number
  readonly diskTokens: number
  readonly remoteTokens: number
  /** Microseconds to load one token to the GPU. */
  readonly hostTokenUs: number
  readonly diskTokenUs: number
  readonly remoteTokenUs: number
  /** Delay of lookups behind the actual contents, milliseconds. */
  readonly reportMs: number
}

export const LMCACHE_DEFAULTS: LmcacheOptions = {
  hostTokens: 0,
  diskTokens: 0,
  remoteTokens: 0,
  hostTokenUs: DEFAULT_LOADING_COSTS.hostTokenUs,
  diskTokenUs: DEFAULT_LOADING_COSTS.diskTokenUs,
  remoteTokenUs: DEFAULT_LOADING_COSTS.remoteTokenUs,
  reportMs: 0,
}

const TIERS = ['host', 'disk', 'remote'] as const
type Tier = (typeof TIERS)[number]

/** Leading blocks that an engine can load, by tier, each including the faster ones. */
export type TierReach = Readonly<Record<Tier, number>>

interface Change {
  readonly at: number
  readonly tierStore: TierStore
  readonly key: number
  readonly held: boolean
}

/**
 * One tier of one node in LRU order, and the directory's view of it. As in LMCache, a chunk is written to every tier
 * at once, and each tier evicts independently.
 */
class TierStore {
  readonly reported = new Set<number>()
  readonly #held = new Set<number>()
  readonly #maxBlocks: number

  constructor(maxBlocks: number) {
    this.#maxBlocks = maxBlocks
  }

  has(key: number): boolean {
    return this.#held.has(key)
  }

  /** Marks a key as most recently used. Returns the evicted keys; null if it was already present. */
  put(key: number): readonly number[] | null {
    if (this.#maxBlocks === 0) return null
    const known = this.#held.delete(key)
    this.#held.add(key)
    if (known) return null
    const gone: number[] = []
    for (const oldest of this.#held) {
      if (this.#held.size <= this.#maxBlocks) break
      this.#held.delete(oldest)
      gone.push(oldest)
    }
    return gone
  }
}

/**
 * LMCache of a whole fleet: stores, loads, and the directory behind lookups. A chunk is one block of the trace. Time
 * is an argument and never decreases.
 */
export class LmcacheStore {
  readonly #options: LmcacheOptions
  readonly #blockTokens: number
  readonly #nodes: readonly Readonly<Record<Tier, TierStore>>[]
  readonly #reports: Change[] = []
  /** Number of processed reports. */
  #read = 0

  constructor(engines: number, blockTokens: number, options: LmcacheOptions) {
    this.#options = options
    this.#blockTokens = blockTokens
    const tierStore = (tokens: number) => new TierStore(Math.floor(tokens / blockTokens))
    const remote = tierStore(options.remoteTokens)
    this.#nodes = Array.from({ length: engines }, () => ({
      host: tierStore(options.hostTokens),
      disk: tierStore(options.diskTokens),
      remote,
    }))
  }

  /** The view of one engine. */
  cacheOf(engine: number): ExternalCache {
    return {
      loading: (blocks, cachedTokens) => this.loading(engine, blocks, cachedTokens),
      store: (blocks, now) => this.store(engine, blocks, now),
    }
  }

  /** Stores the blocks that the engine has computed or fetched. */
  store(engine: number, blocks: Uint32Array, now: number): void {
    // Tail first, so that a prefix is evicted after its continuations.
    for (let at = (blocks.length >> 1) - 1; at >= 0; at -= 1) {
      for (const tier of TIERS) this.#put(this.#nodes[engine]![tier], keyAt(blocks, at), now)
    }
  }

  /**
   * Returns what the engine can load beyond its `cachedTokens`; null: nothing. Each block comes from the fastest tier
   * that has it.
   */
  loading(engine: number, blocks: Uint32Array, cachedTokens: number): FetchSource | null {
    const from = Math.floor(cachedTokens / this.#blockTokens)
    const count = blocks.length >> 1
    let us = 0
    let at = from
    for (; at < count; at += 1) {
      const tier = this.#fastest(engine, keyAt(blocks, at))
      if (tier === null) break
      us += this.#blockTokens * this.#tokenUs(tier)
    }
    return at === from ? null : { tokens: at * this.#blockTokens, ms: us / 1000 }
  }

  /** What the directory reports for an engine: the contents of `reportMs` ago. */
  lookup(engine: number, blocks: Uint32Array, now: number): TierReach {
    this.#receive(now)
    const reach = { host: 0, disk: 0, remote: 0 }
    const node = this.#nodes[engine]!
    for (let at = 0; at < blocks.length >> 1; at += 1) {
      const key = keyAt(blocks, at)
      const nearest = TIERS.findIndex((tier) => node[tier].reported.has(key))
      if (nearest === -1) break
      for (const tier of TIERS.slice(nearest)) if (reach[tier] === at) reach[tier] = at + 1
    }
    return reach
  }

  #put(tierStore: TierStore, key: number, at: number): void {
    const gone = tierStore.put(key)
    if (gone === null) return
    this.#reports.push({ at, tierStore, key, held: true })
    for (const lost of gone) this.#reports.push({ at, tierStore, key: lost, held: false })
  }

  #receive(now: number): void {
    for (; this.#read < this.#reports.length; this.#read += 1) {
      const { at, tierStore, key, held } = this.#reports[this.#read]!
      if (at + this.#options.reportMs > now) break
      if (held) tierStore.reported.add(key)
      else tierStore.reported.delete(key)
    }
    if (this.#read < FORGET_REPORTS) return
    this.#reports.splice(0, this.#read)
    this.#read = 0
  }

  #fastest(engine: number, key: number): Tier | null {
    return TIERS.find((tier) => this.#nodes[engine]![tier].has(key)) ?? null
  }

  #tokenUs(tier: Tier): number {
    const { hostTokenUs, diskTokenUs, remoteTokenUs } = this.#options
    return tier === 'host' ? hostTokenUs : tier === 'disk' ? diskTokenUs : remoteTokenUs
  }
}

const FORGET_REPORTS = 65_536
