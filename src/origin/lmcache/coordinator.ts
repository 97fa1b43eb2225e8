/** LMCache's directory service of multi-process mode, `lmcache coordinator`, as of 0.5.6. */
import * as z from 'zod/mini'
import { ChunkSize } from '../../core/lmcache/chunk-size.ts'
import { type CachePlacement, type ChunkRow, holdersOf } from '../../core/lmcache/prefix-match.ts'
import type { OriginTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'
import type { CachedPrompt, CacheSource, CallLimits } from './cache-source.ts'
import { readAs, requestJson } from './request-json.ts'

/** The coordinator's own limit of tokens per lookup. */
const MAX_TOKENS = 1_000_000

const placement = z.object({
  instance_id: z.string(),
  tier: z.string(),
  shared: z.optional(z.boolean()),
})

const lookupAnswer = z.object({
  chunks: z.int().check(z.gte(0)),
  results: z.array(
    z.object({
      key: z.object({ chunk_hash_hex: z.string() }),
      placements: z.array(placement),
    }),
  ),
})

const instancesAnswer = z.object({ instances: z.array(z.object({ instance_id: z.string(), ip: z.string() })) })

const keysAnswer = z.object({
  keys: z.array(z.object({ key: z.object({ model_name: z.string(), kv_rank: z.int() }) })),
})

export class Coordinator implements CacheSource {
  readonly needs = { model: true }
  readonly #origin: Origin
  readonly #target: OriginTarget
  readonly #chunk = new ChunkSize()

  constructor(origin: Origin, target: OriginTarget) {
    this.#origin = origin
    this.#target = target
  }

  get minTokens(): number {
    return this.#chunk.known ? this.#chunk.tokens : 0
  }

  async holders({ tokens, salt, model, worldSize }: CachedPrompt, limits: CallLimits) {
    const sent = tokens.length > MAX_TOKENS ? tokens.subarray(0, MAX_TOKENS) : tokens
    const body = { token_ids: Array.from(sent), model_name: model, world_size: worldSize, cache_salt: salt }
    const answer = readAs(
      lookupAnswer,
      await requestJson(this.#origin, this.#target, { path: '/directory/lookup', body, ...limits }),
    )
    if (answer.chunks > sent.length) throw new Error(`${answer.chunks} chunks in a prompt of ${sent.length} tokens`)
    const chunks = rowsByChunk(answer.results)
    if (chunks.length !== answer.chunks) throw new Error(`${answer.chunks} chunks announced, ${chunks.length} came`)
    this.#chunk.learn(sent.length, answer.chunks)
    return holdersOf(chunks, this.#chunk.tokens)
  }

  async instances(_hosts: readonly string[], limits: CallLimits) {
    const { instances } = readAs(
      instancesAnswer,
      await requestJson(this.#origin, this.#target, { path: '/instances', ...limits }),
    )
    return instances.map(({ instance_id: id, ip }) => ({ id, host: ip }))
  }

  async worldSize(model: string, limits: CallLimits) {
    const { keys } = readAs(
      keysAnswer,
      await requestJson(this.#origin, this.#target, { path: '/directory/keys?limit=100', ...limits }),
    )
    const known = keys.find(({ key }) => key.model_name === model)
    // Packed as world_size << 24 | global_rank << 16 | local_world_size << 8 | local_rank.
    const size = known === undefined ? 0 : (known.key.kv_rank >>> 24) & 0xff
    return size === 0 ? null : size
  }
}

/** Groups rows by chunk; rows arrive in the order of chunks. */
function rowsByChunk(results: z.infer<typeof lookupAnswer>['results']): ChunkRow[][] {
  const chunks: ChunkRow[][] = []
  let last: string | null = null
  for (const { key, placements } of results) {
    if (key.chunk_hash_hex !== last) chunks.push([])
    last = key.chunk_hash_hex
    chunks.at(-1)!.push(placements.flatMap(readPlacement))
  }
  return chunks
}

/** Tiers of later versions are ignored. */
function readPlacement({ instance_id: instance, tier, shared = false }: z.infer<typeof placement>): CachePlacement[] {
  return tier === 'l1' || tier === 'l2' ? [{ instance, level: tier, shared }] : []
}
