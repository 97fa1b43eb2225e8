/** Deletions after which the table is replaced. */
const DELETIONS = 128

/**
 * Map for entries that come and go all the time, such as live requests. V8 links each outgrown table of a `Map` to its
 * successor. After a full garbage collection the current table is old, so all tables behind it, and all their entries,
 * survive every later scavenge until the next full collection: for bookings, 2 KB of garbage per request was copied
 * and promoted, a quarter of all CPU time. A new `Map` from time to time ends the chain.
 */
export class ChurnMap<Key, Value> {
  #map = new Map<Key, Value>()
  #deletions = 0

  get size(): number {
    return this.#map.size
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key)
  }

  has(key: Key): boolean {
    return this.#map.has(key)
  }

  set(key: Key, value: Value): void {
    this.#map.set(key, value)
  }

  delete(key: Key): boolean {
    const isDeleted = this.#map.delete(key)
    if (isDeleted && ++this.#deletions > DELETIONS + this.#map.size) {
      this.#map = new Map(this.#map)
      this.#deletions = 0
    }
    return isDeleted
  }

  /** In the order in which their keys were added. An iteration may also return entries that are deleted meanwhile. */
  values(): Iterable<Value> {
    return this.#map.values()
  }

  [Symbol.iterator](): Iterator<[Key, Value]> {
    return this.#map[Symbol.iterator]()
  }
}
