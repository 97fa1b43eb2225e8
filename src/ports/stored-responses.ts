/** Location of a response that an engine stores for later calls (`/v1/responses`). */
export interface StoredResponse {
  readonly tenant: string
  readonly cluster: string
  readonly pool: string
  readonly engine: string
  /** Model name in the client's request. */
  readonly model: string
}

/** Locations of stored responses. Asynchronous if they are in another thread. */
export interface StoredResponses {
  /** null: the id is unknown or expired, or belongs to another tenant. */
  find(id: string, tenant: string): StoredResponse | null | Promise<StoredResponse | null>
  /** Keeps the first tenant of an id: engines let clients choose ids, so another client could take one over. */
  keep(id: string, stored: StoredResponse): void
  /** Resolves when no thread has the id any more. */
  forget(id: string): void | Promise<void>
}
