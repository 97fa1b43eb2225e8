import { BoundedMap } from '../../core/bounded-map.ts'
import type { PoolRoute } from '../pool-route.ts'

/** Items that each encoder probably holds. Bounded; the least recently used item is dropped first. @testing */
export class EncoderCache {
  readonly #engineOf: BoundedMap<string, string>

  constructor(limit: number) {
    this.#engineOf = new BoundedMap(limit)
  }

  has(key: string): boolean {
    const engine = this.#engineOf.get(key)
    if (engine === undefined) return false
    this.#engineOf.set(key, engine)
    return true
  }

  add(key: string, engine: string): void {
    this.#engineOf.set(key, engine)
  }

  /** Drops the items of an engine that failed. */
  forget(engine: string): void {
    for (const [key, holder] of this.#engineOf) if (holder === engine) this.#engineOf.delete(key)
  }
}

const encodedBy = new WeakMap<PoolRoute, EncoderCache>()

export function encoderCacheOf(route: PoolRoute): EncoderCache {
  let encoded = encodedBy.get(route)
  if (encoded === undefined) {
    encoded = new EncoderCache(route.pool.split.encode.cachedItems)
    encodedBy.set(route, encoded)
  }
  return encoded
}
