import type { Body } from './body-fields.ts'

/** An answer of /v1/responses with its conversation as chat messages. */
interface StoredResponse {
  readonly response: Readonly<Record<string, unknown>>
  readonly messages: readonly Body[]
}

/** The newest answers of an engine. Older ones are discarded, as by a restart. */
export class StoredResponses {
  readonly #limit: number
  readonly #byId = new Map<string, StoredResponse>()

  constructor(limit: number) {
    this.#limit = limit
  }

  get(id: string): StoredResponse | undefined {
    return this.#byId.get(id)
  }

  put(id: string, stored: StoredResponse): void {
    this.#byId.set(id, stored)
    if (this.#byId.size <= this.#limit) return
    const [oldest] = this.#byId.keys()
    this.#byId.delete(oldest!)
  }
}
