import { BoundedMap } from '../core/bounded-map.ts'
import type { StoredResponse, StoredResponses } from '../ports.ts'

/**
 * Response id → engine that holds it. Bounded; the least recently used entry is dropped first. It is kept in memory
 * only, because engines lose their responses at a restart too.
 */
export class ResponseAffinity implements StoredResponses {
  readonly #holdings: BoundedMap<string, StoredResponse>

  constructor(limit: number) {
    this.#holdings = new BoundedMap(limit)
  }

  find(id: string, tenant: string): StoredResponse | null {
    const holding = this.#holdings.get(id)
    if (holding === undefined || holding.tenant !== tenant) return null
    this.#holdings.set(id, holding)
    return holding
  }

  keep(id: string, holding: StoredResponse): void {
    const known = this.#holdings.get(id)
    if (known !== undefined && known.tenant !== holding.tenant) return
    this.#holdings.set(id, holding)
  }

  forget(id: string): void {
    this.#holdings.delete(id)
  }

  /** Least recently used first. */
  entries(): Iterable<readonly [id: string, holding: StoredResponse]> {
    return this.#holdings
  }
}
