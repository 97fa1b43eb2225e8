import type { PoolName } from '../../../ports/pool.ts'
import type { StoredResponse, StoredResponses } from '../../../ports/stored-responses.ts'
import { withTimeout } from '../../../timeout.ts'
import type { Connection } from './connection.ts'
import { script } from './scripts.ts'

/** Since its last use. Engines keep responses in memory, not for long. */
const TTL_MS = 3_600_000

/** A request with an unknown response id waits so long at most. */
const LOOKUP_MS = 100

/**
 * Stores where a response is kept. KEYS 1: response. ARGV: tenant, entry, ms. A response stays with its first tenant.
 */
const KEEP = script(`
local known = redis.call('GET', KEYS[1])
if known and cjson.decode(known).tenant ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`)

interface ReplicatedResponsesParts {
  readonly connection: Connection
  readonly prefix: string
  readonly isPool: (name: PoolName) => boolean
  readonly forgotten: (id: string) => void
}

/** Engines of stored responses: of this gateway's in memory, of all replicas' on the server. */
export class ReplicatedResponses implements StoredResponses {
  readonly #own: StoredResponses
  readonly #parts: ReplicatedResponsesParts

  constructor(own: StoredResponses, parts: ReplicatedResponsesParts) {
    this.#own = own
    this.#parts = parts
  }

  async find(id: string, tenant: string): Promise<StoredResponse | null> {
    const own = await this.#own.find(id, tenant)
    const { client } = this.#parts.connection
    if (own !== null || client === null) return own
    const stored = client.getEx(this.#key(id), { type: 'PX', value: TTL_MS })
    const found = await withTimeout(
      LOOKUP_MS,
      stored.then((text) => JSON.parse(text ?? 'null') as StoredResponse | null),
    )
    const known = found?.value ?? null
    return known?.tenant === tenant && this.#parts.isPool([known.cluster, known.pool]) ? known : null
  }

  keep(id: string, response: StoredResponse): void {
    this.#own.keep(id, response)
    const given = [response.tenant, JSON.stringify(response), String(TTL_MS)]
    // Without the server the response is known to this gateway alone.
    this.#parts.connection.run(KEEP, [this.#key(id)], given).catch(() => undefined)
  }

  async forget(id: string): Promise<void> {
    await this.#own.forget(id)
    this.#parts.forgotten(id)
    const { client } = this.#parts.connection
    if (client !== null) await withTimeout(LOOKUP_MS, client.del(this.#key(id)))
  }

  #key(id: string): string {
    return `${this.#parts.prefix}:response:${encodeURIComponent(id)}`
  }
}
