/**
 * Lookups at LMCache's two directory services: the coordinator (`lmcache coordinator`) and the legacy controller
 * (`lmcache_controller`), as of 0.5.6.
 */
import * as z from 'zod/mini'
import { ChunkSize } from '../../core/lmcache/chunks.ts'
import {
  holdersOf,
  type CachePlacement,
  type ChunkRow,
  type Holders,
  type PrefixMatch,
} from '../../core/lmcache/prefix-match.ts'
import type { EngineTarget, Origin } from '../../ports.ts'
import { requestJson, readAs, type CachedPrompt, type CacheSource, type Call } from './client.ts'
import type { ListedInstance } from '../../core/lmcache/instance-map.ts'

/**
 * Location and end of each holder, as a pair. Today one holder; with LMCache#4471 every holder of a contiguous prefix.
 */
const controllerLookupAnswer = z.object({
  layout_info: z.record(z.string(), z.array(z.union([z.string(), z.int().check(z.gte(0))]))),
})
const instanceAnswer = z.object({ res: z.nullish(z.string()) })

/** Largest number of concurrent lookups. */
const AT_ONCE = 8

export class Controller implements CacheSource {
  readonly needs = { model: false }
  /** It also counts an incomplete last chunk. */
  readonly leastTokens = 0
  readonly #origin: Origin
  readonly #target: EngineTarget

  constructor(origin: Origin, target: EngineTarget) {
    this.#origin = origin
    this.#target = target
  }

  async holders({ tokens }: CachedPrompt, call: Call): Promise<Holders> {
    const answer = await requestJson(this.#origin, this.#target, {
      method: 'POST',
      path: '/lookup',
      body: { tokens: Array.from(tokens) },
      ...call,
    })
    const { layout_info: layout } = readAs(controllerLookupAnswer, answer)
    return {
      instances: new Map(
        Object.entries(layout).map(([instance, [location, end]]) => [
          instance,
          reachOf(String(location), Number(end) || 0),
        ]),
      ),
      shared: 0,
    }
  }

  async instances(hosts: readonly string[], call: Call): Promise<readonly ListedInstance[]> {
    const found: ListedInstance[] = []
    for (let from = 0; from < hosts.length; from += AT_ONCE) {
      const group = hosts.slice(from, from + AT_ONCE)
      const answers = await Promise.allSettled(
        group.map((ip) =>
          requestJson(this.#origin, this.#target, {
            method: 'POST',
            path: '/query_instance',
            body: { event_id: `firstlight-${ip}`, ip },
            ...call,
          }),
        ),
      )
      for (const [index, answer] of answers.entries()) {
        // For an unregistered host some versions return an error, others null.
        const instance = answer.status === 'fulfilled' ? instanceAnswer.safeParse(answer.value).data?.res : null
        if (instance) found.push({ id: instance, host: group[index]! })
      }
    }
    return found
  }

  async worldSize(): Promise<null> {
    return null
  }
}

/**
 * Maps the controller's locations, which are names of its backends: LocalCPUBackend, LocalDiskBackend, RemoteBackend
 * and others.
 */
function reachOf(location: string, tokens: number): PrefixMatch {
  if (/cpu/i.test(location)) return { host: tokens, disk: tokens, remote: tokens }
  if (/disk|gds/i.test(location)) return { host: 0, disk: tokens, remote: tokens }
  return { host: 0, disk: 0, remote: tokens }
}

/** The coordinator's own limit of tokens per lookup. */
const MOST_TOKENS = 1_000_000

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
  readonly #target: EngineTarget
  readonly #chunk = new ChunkSize()

  constructor(origin: Origin, target: EngineTarget) {
    this.#origin = origin
    this.#target = target
  }

  get leastTokens(): number {
    return this.#chunk.known ? this.#chunk.tokens : 0
  }

  async holders({ tokens, salt, model, worldSize }: CachedPrompt, call: Call) {
    const sent = tokens.length > MOST_TOKENS ? tokens.subarray(0, MOST_TOKENS) : tokens
    const body = { token_ids: Array.from(sent), model_name: model, world_size: worldSize, cache_salt: salt }
    const answer = readAs(
      lookupAnswer,
      await requestJson(this.#origin, this.#target, { method: 'POST', path: '/directory/lookup', body, ...call }),
    )
    if (answer.chunks > sent.length) throw new Error(`${answer.chunks} chunks in a prompt of ${sent.length} tokens`)
    const chunks = rowsByChunk(answer.results)
    if (chunks.length !== answer.chunks) throw new Error(`${answer.chunks} chunks announced, ${chunks.length} came`)
    this.#chunk.learn(sent.length, answer.chunks)
    return holdersOf(chunks, this.#chunk.tokens)
  }

  async instances(_hosts: readonly string[], call: Call) {
    const { instances } = readAs(
      instancesAnswer,
      await requestJson(this.#origin, this.#target, { method: 'GET', path: '/instances', ...call }),
    )
    return instances.map(({ instance_id: id, ip }) => ({ id, host: ip }))
  }

  async worldSize(model: string, call: Call) {
    const { keys } = readAs(
      keysAnswer,
      await requestJson(this.#origin, this.#target, { method: 'GET', path: '/directory/keys?limit=100', ...call }),
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
