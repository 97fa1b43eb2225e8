/** Where an answer lives that an engine keeps for later calls (`/v1/responses`). */
export interface Holding {
  readonly tenant: string
  readonly cluster: string
  readonly pool: string
  readonly engine: string
  /** Name the client asked for. */
  readonly model: string
}

/** Who holds which response. In another thread's memory every call is a question. */
export interface Holdings {
  /** null for an id nobody told us, that was forgotten, or that belongs to another tenant. */
  find(id: string, tenant: string): Holding | null | Promise<Holding | null>
  /** An id stays with its first tenant: engines let clients choose ids, and nobody may take over another's. */
  keep(id: string, holding: Holding): void
  forget(id: string): void
}

/**
 * Response id → the engine that holds it: bounded, least recently used goes first. It lives in this gateway's memory;
 * engines forget their responses at a restart, so there is nothing to gain from a store that does not.
 */
export class HeldResponses implements Holdings {
  readonly #holdings = new Map<string, Holding>()
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  find(id: string, tenant: string): Holding | null {
    const holding = this.#holdings.get(id)
    if (holding === undefined || holding.tenant !== tenant) return null
    this.#holdings.delete(id)
    this.#holdings.set(id, holding)
    return holding
  }

  keep(id: string, holding: Holding): void {
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
}
