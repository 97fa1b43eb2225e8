import { TIER_TOKEN_US } from '../../core/latency/profiles.ts'
import type { FetchedFrom } from '../engine-model.ts'
import { keyAt } from './serial-engine.ts'
import type { Outside } from './vllm-engine.ts'

/** LMCache beside each engine: what it keeps where, and what reading it back takes. */
export interface LmcacheOptions {
  /** Tokens each engine's node keeps in memory and on disk, and that the store all of them share keeps. 0: no such tier. */
  readonly hostTokens: number
  readonly diskTokens: number
  readonly remoteTokens: number
  /** Microseconds to bring one token to the GPU. */
  readonly hostTokenUs: number
  readonly diskTokenUs: number
  readonly remoteTokenUs: number
  /** How far what a lookup says lags behind what is there, milliseconds. */
  readonly reportMs: number
}

export const LMCACHE_DEFAULTS: LmcacheOptions = {
  hostTokens: 0,
  diskTokens: 0,
  remoteTokens: 0,
  hostTokenUs: TIER_TOKEN_US.host,
  diskTokenUs: TIER_TOKEN_US.disk,
  remoteTokenUs: TIER_TOKEN_US.remote,
  reportMs: 0,
}

const TIERS = ['host', 'disk', 'remote'] as const
export type Tier = (typeof TIERS)[number]

/** Leading blocks an engine can read, of each tier with the faster ones. */
export type Reach = Readonly<Record<Tier, number>>

interface Change {
  readonly at: number
  readonly shelf: Shelf
  readonly key: number
  readonly held: boolean
}

/**
 * One tier of one node, least recently used out first, and what the directory believes of it. As in LMCache a chunk is
 * written to every tier at once, and each evicts by itself.
 */
class Shelf {
  readonly believed = new Set<number>()
  readonly #held = new Set<number>()
  readonly #most: number

  constructor(most: number) {
    this.#most = most
  }

  has(key: number): boolean {
    return this.#held.has(key)
  }

  /** Makes it the most recently used. Returns what had to go; null: it was there before. */
  put(key: number): readonly number[] | null {
    if (this.#most === 0) return null
    const known = this.#held.delete(key)
    this.#held.add(key)
    if (known) return null
    const gone: number[] = []
    for (const oldest of this.#held) {
      if (this.#held.size <= this.#most) break
      this.#held.delete(oldest)
      gone.push(oldest)
    }
    return gone
  }
}

/**
 * LMCache of a whole fleet: stores, loads, and the directory that lookups ask. A chunk is one block of the trace, of
 * which nothing finer is known. Time is passed in and never goes back.
 */
export class LmcacheStore {
  readonly #options: LmcacheOptions
  readonly #blockTokens: number
  readonly #nodes: readonly Readonly<Record<Tier, Shelf>>[]
  readonly #reports: Change[] = []
  /** Reports before this one have been read. */
  #read = 0

  constructor(engines: number, blockTokens: number, options: LmcacheOptions) {
    this.#options = options
    this.#blockTokens = blockTokens
    const shelf = (tokens: number) => new Shelf(Math.floor(tokens / blockTokens))
    const remote = shelf(options.remoteTokens)
    this.#nodes = Array.from({ length: engines }, () => ({
      host: shelf(options.hostTokens),
      disk: shelf(options.diskTokens),
      remote,
    }))
  }

  /** What one engine sees of it. */
  beside(engine: number): Outside {
    return {
      loading: (blocks, cachedTokens) => this.loading(engine, blocks, cachedTokens),
      store: (blocks, now) => this.store(engine, blocks, now),
    }
  }

  /** The engine has computed or fetched these blocks of a prompt. */
  store(engine: number, blocks: Uint32Array, now: number): void {
    // Tail first, so that a prefix outlives what hangs on it.
    for (let at = (blocks.length >> 1) - 1; at >= 0; at -= 1) {
      for (const tier of TIERS) this.#put(this.#nodes[engine]![tier], keyAt(blocks, at), now)
    }
  }

  /** What the engine could fetch beyond the `cachedTokens` it has; null: nothing. Each block comes from the fastest tier that has it. */
  loading(engine: number, blocks: Uint32Array, cachedTokens: number): FetchedFrom | null {
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

  /** What the directory says an engine can read: the truth of `reportMs` ago. */
  lookup(engine: number, blocks: Uint32Array, now: number): Reach {
    this.#receive(now)
    const reach = { host: 0, disk: 0, remote: 0 }
    const node = this.#nodes[engine]!
    for (let at = 0; at < blocks.length >> 1; at += 1) {
      const key = keyAt(blocks, at)
      const nearest = TIERS.findIndex((tier) => node[tier].believed.has(key))
      if (nearest === -1) break
      for (const tier of TIERS.slice(nearest)) if (reach[tier] === at) reach[tier] = at + 1
    }
    return reach
  }

  #put(shelf: Shelf, key: number, at: number): void {
    const gone = shelf.put(key)
    if (gone === null) return
    this.#reports.push({ at, shelf, key, held: true })
    for (const lost of gone) this.#reports.push({ at, shelf, key: lost, held: false })
  }

  #receive(now: number): void {
    for (; this.#read < this.#reports.length; this.#read += 1) {
      const { at, shelf, key, held } = this.#reports[this.#read]!
      if (at + this.#options.reportMs > now) break
      if (held) shelf.believed.add(key)
      else shelf.believed.delete(key)
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
