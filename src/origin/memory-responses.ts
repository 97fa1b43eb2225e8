import { BoundedMap } from '../core/bounded-map.ts'
import type { StoredResponse, StoredResponses } from '../ports/stored-responses.ts'

/**
 * Locations of stored responses in this process's memory, as engines lose their responses at a restart too. Bounded:
 * the least recently used is dropped first.
 */
export class MemoryResponses implements StoredResponses {
  readonly #responses: BoundedMap<string, StoredResponse>

  constructor(limit: number) {
    this.#responses = new BoundedMap(limit)
  }

  find(id: string, tenant: string): StoredResponse | null {
    const stored = this.#responses.get(id)
    if (stored === undefined || stored.tenant !== tenant) return null
    this.#responses.set(id, stored)
    return stored
  }

  keep(id: string, stored: StoredResponse): void {
    const known = this.#responses.get(id)
    if (known !== undefined && known.tenant !== stored.tenant) return
    this.#responses.set(id, stored)
  }

  forget(id: string): void {
    this.#responses.delete(id)
  }

  /** Least recently used first. */
  entries(): Iterable<readonly [id: string, stored: StoredResponse]> {
    return this.#responses
  }
}
