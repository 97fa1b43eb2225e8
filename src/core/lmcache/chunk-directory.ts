import type { ChunkRow } from './prefix-match.ts'
import type { CacheEvents, ChunkKeys, RegistryPlacement } from './registry-call.ts'

/**
 * One for each (instance, incarnation, level, backend, shared): rows share them, so ending an incarnation ends all at
 * once.
 */
interface CachePlace extends RegistryPlacement {
  live: boolean
}

/** Maximum rows per chunk: disks of instances with ever new names would otherwise accumulate. */
const MAX_HOLDERS = 256

/** Directory: which instance holds which rank's part of which chunk. Bounded LRU. */
export class ChunkDirectory {
  readonly #rows = new Map<number, CachePlace[]>()
  readonly #places = new Map<string, CachePlace>()
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
    // A chunk that is read from a node's memory is there: this much is learned again after this directory was lost.
    const stores = events.kind === 'store' || (events.kind === 'access' && events.level === 'l1')
    for (let at = 0; at < events.ranks.length; at += 1) {
      const key = keyAt(events, at)
      if (stores) this.#store(key, events)
      else if (events.kind === 'delete') this.#delete(key, events)
      else this.#touch(key)
    }
  }

  /** Removes the rows of an instance's memory. Disks and shared stores keep theirs. */
  dropMemory(instance: string): void {
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
    const same = ({ instance, level }: CachePlace) => instance === place.instance && level === place.level
    // An access does not name the backend: it adds nothing to a store, and a store replaces it.
    const known = row.some(
      (one) => same(one) && (place.backend === '' || (one.backend === place.backend && one.shared === place.shared)),
    )
    this.#rows.delete(key)
    this.#rows.set(
      key,
      known ? row : [...row.filter((one) => one.backend !== '' || !same(one)), place].slice(-MAX_HOLDERS),
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

  #live(key: number): CachePlace[] {
    const row = this.#rows.get(key)
    if (row === undefined) return []
    if (row.every(({ live }) => live)) return row
    const live = row.filter((place) => place.live)
    if (live.length === 0) this.#rows.delete(key)
    else this.#rows.set(key, live)
    return live
  }

  #placeOf({ instance, incarnation, level, backend, shared }: CacheEvents): CachePlace {
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
