/**
 * LMCache beside a simulated fleet, as a `fetch`: the multi-process coordinator and the legacy controller, with the
 * HTTP API recorded from 0.5.6. Tests and benches define what is stored where.
 */
import { chunkHashes, hashHex } from '../../../../src/core/lmcache/chunk-hashes.ts'
import { FakeService } from './service.ts'

interface StoredAt {
  readonly instance: string
  readonly tier?: 'l1' | 'l2'
  readonly shared?: boolean
  readonly incarnation?: number
  /** Ranks that have stored; all of `worldSize` if absent. */
  readonly ranks?: readonly number[]
  readonly worldSize?: number
  readonly salt?: string
}

interface Placement {
  readonly instance_id: string
  readonly incarnation: number
  readonly tier: 'l1' | 'l2'
  readonly backend: string
  readonly size_bytes: number
  readonly shared: boolean
}

interface Instance {
  readonly instance_id: string
  readonly ip: string
  readonly http_port: number
  readonly registration_time: number
  readonly metadata: Readonly<Record<string, string>>
  readonly p2p_advertised_url: string
  readonly mq_port: number
}

const NO_INSTANCE = { registration_time: 0, metadata: {}, p2p_advertised_url: '', mq_port: 0 }

const BYTES = 262_144

/** `lmcache coordinator`: GET /healthz, /instances, /directory/keys; POST /directory/lookup. @testing */
export class FakeCoordinator extends FakeService {
  readonly instances: Instance[] = []
  readonly #chunkTokens: number
  readonly #placements = new Map<string, Placement[]>()

  constructor(chunkTokens = 256) {
    super()
    this.#chunkTokens = chunkTokens
  }

  join(id: string, ip: string): void {
    this.instances.push({ ...NO_INSTANCE, instance_id: id, ip, http_port: 8080 })
  }

  /** Removes everything of the instance, as after a DELETE. */
  leave(id: string): void {
    const at = this.instances.findIndex(({ instance_id: known }) => known === id)
    if (at >= 0) this.instances.splice(at, 1)
    for (const [key, placements] of this.#placements)
      this.#placements.set(
        key,
        placements.filter(({ instance_id: holder, tier }) => holder !== id || tier === 'l2'),
      )
  }

  /** Stores the complete chunks of a prompt at an instance. */
  store(model: string, tokens: ArrayLike<number>, at: StoredAt): void {
    const { instance, tier = 'l1', shared = false, incarnation = 1_795_258_323, worldSize = 1, salt = '' } = at
    const hashes = chunkHashes(tokens, this.#chunkTokens)
    for (let chunk = 0; chunk < hashes.length / 8; chunk += 1) {
      for (const rank of at.ranks ?? Array.from({ length: worldSize }, (_, own) => own)) {
        const key = keyText({
          chunk_hash_hex: hashHex(hashes, chunk),
          model_name: model,
          kv_rank: rankOf(worldSize, rank),
          object_group_id: 0,
          cache_salt: salt,
        })
        const others = (this.#placements.get(key) ?? []).filter(
          ({ instance_id: holder, tier: known }) => holder !== instance || known !== tier,
        )
        this.#placements.set(key, [
          ...others,
          {
            instance_id: instance,
            incarnation,
            tier,
            backend: tier === 'l1' ? 'dram' : 'fs',
            size_bytes: BYTES,
            shared,
          },
        ])
      }
    }
  }

  async fetch(request: Request): Promise<Response> {
    const instead = await this.overrideOf(request)
    if (instead !== null) return instead
    const { pathname } = new URL(request.url)
    const route = `${request.method} ${pathname}`
    if (route === 'GET /healthz') return Response.json({ status: 'healthy' })
    if (route === 'GET /instances') return Response.json({ instances: this.instances })
    if (route === 'GET /directory/keys') return Response.json(this.#keys())
    if (route === 'POST /directory/lookup') return this.#lookup((await request.json()) as Partial<Lookup>)
    return Response.json({ detail: 'Not Found' }, { status: 404 })
  }

  #keys(): unknown {
    const keys = [...this.#placements].map(([key, placements]) => ({
      key: JSON.parse(key) as ObjectKey,
      placements,
      num_tokens: 0,
      access_count: 0,
    }))
    return { total: keys.length, keys }
  }

  #lookup({
    token_ids: tokens,
    model_name: model = '',
    world_size: worldSize = 1,
    cache_salt: salt = '',
  }: Partial<Lookup>): Response {
    if (tokens === undefined || tokens.length === 0) {
      return Response.json(
        {
          detail: [
            { type: 'value_error', loc: ['body'], msg: "Value error, supply exactly one of 'keys' or 'token_ids'" },
          ],
        },
        { status: 422 },
      )
    }
    const hashes = chunkHashes(tokens, this.#chunkTokens)
    const chunks = hashes.length / 8
    const results = Array.from({ length: chunks * worldSize }, (_, row) => {
      const key: ObjectKey = {
        chunk_hash_hex: hashHex(hashes, Math.floor(row / worldSize)),
        model_name: model,
        kv_rank: rankOf(worldSize, row % worldSize),
        object_group_id: 0,
        cache_salt: salt,
      }
      return { key, placements: this.#placements.get(keyText(key)) ?? [], token_ids: [], access_count: 1 }
    })
    return Response.json({ chunks, results })
  }
}

interface Lookup {
  readonly token_ids: readonly number[]
  readonly model_name: string
  readonly world_size: number
  readonly cache_salt: string
}

interface ObjectKey {
  readonly chunk_hash_hex: string
  readonly model_name: string
  readonly kv_rank: number
  readonly object_group_id: number
  readonly cache_salt: string
}

const keyText = (key: ObjectKey): string => JSON.stringify(key)

/**
 * All ranks on one node: `world_size << 24 | global_rank << 16 | local_world_size << 8 | local_rank`.
 * @testing
 */
export function rankOf(worldSize: number, rank: number): number {
  return ((worldSize << 24) | (rank << 16) | (worldSize << 8) | rank) >>> 0
}
