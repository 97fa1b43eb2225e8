import * as z from 'zod/mini'
import type { PoolName, StoredResponse, StoredResponses } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import type { Link } from './connection.ts'

/** Since its last use. Engines keep responses in memory, not for long. */
const TTL_MS = 3_600_000
/** A request with an unknown response id waits so long at most. */
const LOOKUP_MS = 100

const entry = z.object({
  tenant: z.string(),
  cluster: z.string(),
  pool: z.string(),
  engine: z.string(),
  model: z.string(),
})

export interface ResponseParts {
  readonly link: Link
  readonly prefix: string
  readonly isPool: (name: PoolName) => boolean
  readonly forgotten: (id: string) => void
}

/** Engines of stored responses: of this gateway's in memory, of all replicas' on the server. */
export class ReplicatedResponses implements StoredResponses {
  readonly #own: StoredResponses
  readonly #parts: ResponseParts

  constructor(own: StoredResponses, parts: ResponseParts) {
    this.#own = own
    this.#parts = parts
  }

  async find(id: string, tenant: string): Promise<StoredResponse | null> {
    const own = await this.#own.find(id, tenant)
    const { client } = this.#parts.link
    if (own !== null || client === null) return own
    const found = await withTimeout(LOOKUP_MS, client.getEx(this.#key(id), { type: 'PX', value: TTL_MS }))
    if (found === null || found.value === null) return null
    const known = entry.safeParse(parsed(found.value)).data
    return known?.tenant === tenant && this.#parts.isPool([known.cluster, known.pool]) ? known : null
  }

  keep(id: string, response: StoredResponse): void {
    this.#own.keep(id, response)
    const given = [response.tenant, JSON.stringify(response), String(TTL_MS)]
    void this.#parts.link.run('keep', null, { keys: [this.#key(id)], arguments: given }).catch(ignored)
  }

  async forget(id: string): Promise<void> {
    await this.#own.forget(id)
    this.#parts.forgotten(id)
    const { client } = this.#parts.link
    if (client !== null) await withTimeout(LOOKUP_MS, client.del(this.#key(id)))
  }

  #key(id: string): string {
    return `${this.#parts.prefix}:response:${encodeURIComponent(id)}`
  }
}

/** Without the server the response is known to this gateway alone. */
const ignored = (): void => undefined

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
