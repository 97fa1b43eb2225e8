import type { Admission, EngineSpec, PoolConfig } from '../contract/contract.ts'
import { holdersOf, hintsOf, type ChunkRow } from './prefix-match.ts'
import type {
  CacheEvents,
  RegisteredInstance,
  RegistryAnswer,
  RegistryCall,
  ChunkKeys,
  RegistryPlacement,
} from './registry-call.ts'

/** Map of engines to their LMCache instances. */

export interface EnginePlace {
  readonly id: string
  /** Host of the engine's URL, lower-case, without brackets. */
  readonly host: string
  /** Configured instance; null: found by host. */
  readonly instance: string | null
}

/** Instance of a registry. */
export interface ListedInstance {
  readonly id: string
  /** Address that it reports. */
  readonly host: string
}

export class InstanceMap {
  readonly #engines: readonly EnginePlace[]
  #byHost: ReadonlyMap<string, string | null> = new Map()
  #listed: ReadonlySet<string> = new Set()

  constructor(engines: readonly EnginePlace[]) {
    this.#engines = engines
  }

  /** Hosts of engines whose configuration names no instance. */
  get openHosts(): readonly string[] {
    return [...new Set(this.#engines.filter(({ instance }) => instance === null).map(({ host }) => host))]
  }

  /** Engines without a known instance. */
  get unresolved(): readonly string[] {
    return this.#engines.filter((engine) => this.#instanceOf(engine) === null).map(({ id }) => id)
  }

  /** Replaces the instances by host: instances move and leave. */
  adopt(instances: readonly ListedInstance[]): void {
    const byHost = new Map<string, string | null>()
    for (const { id, host } of instances) {
      const name = host.toLowerCase()
      const other = byHost.get(name)
      // With two instances on one host, the engine's one is unknown.
      byHost.set(name, other === undefined || other === id ? id : null)
    }
    this.#byHost = byHost
    this.#listed = new Set(instances.map(({ id }) => id))
  }

  /** Whether the instance was reported. */
  knows(instance: string): boolean {
    return this.#listed.has(instance) || this.#engines.some((engine) => engine.instance === instance)
  }

  /** Engines with their instance; those without one are omitted. */
  pairs(): readonly { readonly engine: string; readonly instance: string }[] {
    return this.#engines.flatMap((engine) => {
      const instance = this.#instanceOf(engine)
      return instance === null ? [] : [{ engine: engine.id, instance }]
    })
  }

  #instanceOf({ host, instance }: EnginePlace): string | null {
    return instance ?? this.#byHost.get(host) ?? null
  }
}

/** Host of a base URL, in the form that instances report. */
export function hostOf(url: string): string {
  const match = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)/i.exec(url)
  return (match?.[1] ?? '').replace(/^\[|\]$/g, '').toLowerCase()
}

/**
 * One for each (instance, incarnation, level, backend, shared): rows share them, so ending an incarnation ends all at
 * once.
 */
interface Place extends RegistryPlacement {
  live: boolean
}

/** Maximum rows per chunk: disks of instances with ever new names would otherwise accumulate. */
const MOST_HOLDERS = 256

/** Directory: which instance holds which rank's part of which chunk. Bounded LRU. */
export class ChunkDirectory {
  readonly #rows = new Map<number, Place[]>()
  readonly #places = new Map<string, Place>()
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  get size(): number {
    return this.#rows.size
  }

  /** Places that rows may still be added to. */
  get places(): number {
    return this.#places.size
  }

  /** Applies a valid batch of an instance. */
  apply(events: CacheEvents): void {
    if (events.kind === 'config') return
    // Who is read from a node's memory is there: so much is learned again after this directory was lost.
    const stores = events.kind === 'store' || (events.kind === 'access' && events.level === 'l1')
    for (let at = 0; at < events.ranks.length; at += 1) {
      const key = keyAt(events, at)
      if (stores) this.#store(key, events)
      else if (events.kind === 'delete') this.#delete(key, events)
      else this.#touch(key)
    }
  }

  /** Removes the rows of an instance's memory. Disks and shared stores keep theirs. */
  fence(instance: string): void {
    for (const [name, place] of this.#places) {
      if (place.instance !== instance) continue
      place.live = place.level !== 'l1'
      this.#places.delete(name)
    }
  }

  row(keys: ChunkKeys, at: number): readonly RegistryPlacement[] {
    return this.#live(keyAt(keys, at))
  }

  /**
   * Returns the rows of leading chunks, up to the first that no instance holds. `keys` has two lanes per chunk. A
   * lookup is no use of a row: servers report those.
   */
  leading(keys: Uint32Array, worldSize: number): ChunkRow[][] {
    const chunks: ChunkRow[][] = []
    for (let chunk = 0; chunk < keys.length / 2; chunk += 1) {
      const rows: ChunkRow[] = []
      for (let rank = 0; rank < worldSize; rank += 1) {
        const row = this.#live(keyOf(keys[2 * chunk]!, keys[2 * chunk + 1]!, rank))
        if (row.length === 0) return chunks
        rows.push(row)
      }
      chunks.push(rows)
    }
    return chunks
  }

  #store(key: number, events: CacheEvents): void {
    const place = this.#placeOf(events)
    const row = this.#live(key)
    const same = ({ instance, level }: Place) => instance === place.instance && level === place.level
    // An access does not say the backend: it adds nothing to a store, and a store says it better.
    const known = row.some(
      (one) => same(one) && (place.backend === '' || (one.backend === place.backend && one.shared === place.shared)),
    )
    this.#rows.delete(key)
    this.#rows.set(
      key,
      known ? row : [...row.filter((one) => one.backend !== '' || !same(one)), place].slice(-MOST_HOLDERS),
    )
    if (this.#rows.size > this.#limit) this.#rows.delete(this.#rows.keys().next().value!)
  }

  #delete(key: number, { instance, level, backend }: CacheEvents): void {
    const row = this.#live(key).filter(
      (place) =>
        place.instance !== instance || place.level !== level || (place.backend !== backend && place.backend !== ''),
    )
    if (row.length === 0) this.#rows.delete(key)
    else this.#rows.set(key, row)
  }

  #touch(key: number): void {
    const row = this.#rows.get(key)
    if (row === undefined) return
    this.#rows.delete(key)
    this.#rows.set(key, row)
  }

  #live(key: number): Place[] {
    const row = this.#rows.get(key)
    if (row === undefined) return []
    if (row.every(({ live }) => live)) return row
    const live = row.filter((place) => place.live)
    if (live.length === 0) this.#rows.delete(key)
    else this.#rows.set(key, live)
    return live
  }

  #placeOf({ instance, incarnation, level, backend, shared }: CacheEvents): Place {
    const name = JSON.stringify([instance, level === 'l1' ? incarnation : 0, level, backend, shared])
    const known = this.#places.get(name)
    if (known !== undefined) return known
    const place = { instance, incarnation, level, backend, shared, live: true }
    this.#places.set(name, place)
    return place
  }
}

const keyAt = ({ keys, ranks }: ChunkKeys, at: number): number => keyOf(keys[2 * at]!, keys[2 * at + 1]!, ranks[at]!)

/** 53 bits of the two lanes: a wrong match sends a request to a worse engine, no more. */
function keyOf(lo: number, hi: number, rank: number): number {
  return ((hi ^ Math.imul(rank, 0x9e3779b1)) & 0x1fffff) * 2 ** 32 + lo
}

/** Timeout after which an instance without heartbeat is removed, milliseconds (LMCache's own `--instance-timeout`). */
const SILENT_MS = 30_000
/** Maximum number of rows, about 110 bytes each. At 256 tokens per chunk and one rank: 25 million tokens. */
const MOST_ROWS = 100_000
const MOST_INSTANCES = 1_000

interface Instance extends RegisteredInstance {
  readonly registeredAt: number
  engines: readonly string[]
  seenAt: number
  /** The engines changed, so instances must register again. */
  isOld: boolean
}

/** Cursor of an instance's events. */
interface Cursor {
  readonly incarnation: number
  seq: number
}

/**
 * The registry LMCache servers report to, for one pool: what a coordinator keeps, as far as routing reads it.
 * In memory only; what was stored before it began is learned again as it is stored or read again.
 */
export class CacheRegistry {
  readonly #directory = new ChunkDirectory(MOST_ROWS)
  readonly #instances = new Map<string, Instance>()
  readonly #cursors = new Map<string, Cursor>()
  #engines: readonly EngineSpec[] = []
  #worldSize = 1

  /** Applies a configuration. If engines changed, instances must register again, which assigns their engines. */
  configure({ engines }: Pick<PoolConfig, 'engines'>): void {
    const [before, after] = [this.#engines, engines].map((all) =>
      JSON.stringify(all.map(({ id, lmcacheInstance }) => [id, lmcacheInstance])),
    )
    const isFirst = this.#engines.length === 0
    this.#engines = engines
    if (!isFirst && after !== before) for (const instance of this.#instances.values()) instance.isOld = true
  }

  call(call: RegistryCall, now: number): RegistryAnswer {
    this.#sweep(now)
    switch (call.kind) {
      case 'register':
        return { kind: 'register', again: this.#register(call.instance, call.engines, now) }
      case 'heartbeat':
        return { kind: 'heartbeat', known: this.#heartbeat(call.id, now) }
      case 'leave':
        this.#drop(call.id)
        return { kind: 'leave' }
      case 'list':
        return { kind: 'list', instances: [...this.#instances.values()], keys: this.#directory.size }
      case 'events':
        return { kind: 'events', ...this.#ingest(call.batches) }
      case 'lookup':
        return { kind: 'lookup', rows: Array.from(call.keys.ranks, (_, at) => this.#directory.row(call.keys, at)) }
    }
  }

  /** Returns the admission with hints for its chunks, and without the chunks. */
  hinted(admission: Admission, now: number): Admission {
    if (admission.chunks === undefined || admission.chunks === null) return admission
    const { chunks, ...rest } = admission
    this.#sweep(now)
    // No server reports, which is not the same as no match.
    if (this.#cursors.size === 0 && this.#instances.size === 0) return rest
    const holders = holdersOf(this.#directory.leading(chunks.keys, this.#worldSize), chunks.tokens)
    const engines = this.#engines.map(({ id }) => id)
    return {
      ...rest,
      hints: hintsOf(holders, {
        pairs: this.#pairs(),
        engines,
        shared: chunks.shared,
        promptTokens: admission.promptTokens,
      }),
    }
  }

  #register(instance: RegisteredInstance, engines: readonly string[], now: number): boolean {
    const known = this.#instances.get(instance.id)
    this.#instances.delete(instance.id)
    this.#instances.set(instance.id, { ...instance, engines, registeredAt: now, seenAt: now, isOld: false })
    if (this.#instances.size > MOST_INSTANCES) this.#drop(this.#instances.keys().next().value!)
    return known !== undefined
  }

  #heartbeat(id: string, now: number): boolean {
    const instance = this.#instances.get(id)
    if (instance === undefined) return false
    instance.seenAt = now
    return !instance.isOld
  }

  #ingest(batches: readonly CacheEvents[]): {
    readonly applied: number
    readonly duplicates: number
    readonly stale: number
  } {
    const counts = { applied: 0, duplicates: 0, stale: 0 }
    for (const batch of batches) counts[this.#offer(batch)] += 1
    return counts
  }

  /** Applies a batch. Repeated batches and late ones of an earlier incarnation change nothing. */
  #offer(batch: CacheEvents): 'applied' | 'duplicates' | 'stale' {
    const cursor = this.#cursors.get(batch.instance)
    if (cursor !== undefined) {
      if (batch.incarnation < cursor.incarnation) return 'stale'
      if (batch.incarnation > cursor.incarnation) this.#directory.fence(batch.instance)
      else if (batch.seq <= cursor.seq) return 'duplicates'
    }
    this.#cursors.delete(batch.instance)
    this.#cursors.set(batch.instance, { incarnation: batch.incarnation, seq: batch.seq })
    if (this.#cursors.size > MOST_INSTANCES) this.#drop(this.#cursors.keys().next().value!)
    if (batch.kind === 'store' && batch.worldSize > 0) this.#worldSize = batch.worldSize
    this.#directory.apply(batch)
    return 'applied'
  }

  #drop(id: string): void {
    this.#directory.fence(id)
    this.#instances.delete(id)
    this.#cursors.delete(id)
  }

  #sweep(now: number): void {
    for (const { id, seenAt } of this.#instances.values()) if (now - seenAt > SILENT_MS) this.#drop(id)
  }

  /** Configured instances of engines, and instances by address for the others. */
  #pairs(): { readonly engine: string; readonly instance: string }[] {
    const named = this.#engines.flatMap(({ id, lmcacheInstance }) =>
      lmcacheInstance == null ? [] : [{ engine: id, instance: lmcacheInstance }],
    )
    const open = new Set(this.#engines.filter(({ lmcacheInstance }) => lmcacheInstance == null).map(({ id }) => id))
    const found = [...this.#instances.values()].flatMap(({ id, engines }) =>
      engines.filter((engine) => open.has(engine)).map((engine) => ({ engine, instance: id })),
    )
    return [...named, ...found]
  }
}
