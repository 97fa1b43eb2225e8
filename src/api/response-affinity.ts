import { BoundedMap } from '../core/bounded-map.ts'
import type { StoredResponse, StoredResponses } from '../ports.ts'

/**
 * Response id → the engine that holds it: bounded, least recently used goes first. It lives in this gateway's memory;
 * engines forget their responses at a restart, so there is nothing to gain from a store that does not.
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
