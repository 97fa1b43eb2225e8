import { BoundedMap } from '../core/bounded-map.ts'
import type { StoredResponse, StoredResponses } from '../ports/stored-responses.ts'

/**
 * Response id → engine that holds it. Bounded; the least recently used entry is dropped first. It is kept in memory
 * only, because engines lose their responses at a restart too.
 */
export class ResponseAffinity implements StoredResponses {
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
