import type { StoredResponse, StoredResponses } from '../ports.ts'

/**
 * Response id → the engine that holds it: bounded, least recently used goes first. It lives in this gateway's memory;
 * engines forget their responses at a restart, so there is nothing to gain from a store that does not.
 */
export class ResponseAffinity implements StoredResponses {
  readonly #holdings = new Map<string, StoredResponse>()
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  find(id: string, tenant: string): StoredResponse | null {
    const holding = this.#holdings.get(id)
    if (holding === undefined || holding.tenant !== tenant) return null
    this.#holdings.delete(id)
    this.#holdings.set(id, holding)
    return holding
  }

  keep(id: string, holding: StoredResponse): void {
    const known = this.#holdings.get(id)
    if (known !== undefined && known.tenant !== holding.tenant) return
    this.#holdings.delete(id)
    this.#holdings.set(id, holding)
    if (this.#holdings.size <= this.#limit) return
    const oldest = this.#holdings.keys().next()
    if (!oldest.done) this.#holdings.delete(oldest.value)
  }

  forget(id: string): void {
    this.#holdings.delete(id)
  }

  /** Least recently used first. */
  entries(): Iterable<readonly [id: string, holding: StoredResponse]> {
    return this.#holdings
  }
}
