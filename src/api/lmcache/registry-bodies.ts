/** Request bodies of LMCache 0.5.6, as far as the registry reads them. */
import * as z from 'zod/mini'
import { wireKeys } from '../../core/lmcache/chunk-keys.ts'
import type { CacheEvents, ChunkKeys } from '../../core/lmcache/registry-call.ts'

const text = z.string().check(z.maxLength(1024))

const count = z.int().check(z.gte(0))

const objectKey = z.object({
  chunk_hash_hex: z.string().check(z.regex(/^(?:[0-9a-fA-F]{2}){1,64}$/)),
  model_name: text,
  kv_rank: z.int().check(z.gte(0), z.lte(0xffff_ffff)),
  object_group_id: z.optional(count),
  cache_salt: z.optional(text),
})

export type ObjectKey = z.infer<typeof objectKey>

export const registration = z.object({
  instance_id: z.optional(text),
  ip: z.string().check(z.regex(/\S/), z.maxLength(255)),
  http_port: z.int().check(z.gte(1), z.lte(65_535)),
  metadata: z.optional(z.record(text, text)),
  p2p_advertised_url: z.optional(text),
  mq_port: z.optional(z.int().check(z.gte(0), z.lte(65_535))),
})

const batchSchema = z.object({
  instance_id: text.check(z.minLength(1)),
  incarnation: count,
  seq: z.int().check(z.gte(1)),
  event_type: z.enum(['store', 'delete', 'access', 'config']),
  tier: z.enum(['l1', 'l2']),
  backend: text,
  entries: z.optional(z.array(z.object({ key: objectKey }))),
  shared: z.optional(z.boolean()),
})

type Batch = z.infer<typeof batchSchema>

export const eventsBody = z.object({ batches: z.optional(z.array(batchSchema)) })

export const lookupBody = z.object({
  keys: z.optional(z.array(objectKey)),
  token_ids: z.optional(z.array(z.int().check(z.gte(0), z.lte(0xffff_ffff)))),
  model_name: z.optional(text),
  world_size: z.optional(z.int().check(z.gte(1), z.lte(255))),
  cache_salt: z.optional(text),
})

/** Decodes `kv_rank`: `world_size << 24 | global_rank << 16 | local_world_size << 8 | local_rank`. */
const worldSizeOf = (kvRank: number): number => (kvRank >>> 24) & 0xff

const globalRankOf = (kvRank: number): number => (kvRank >>> 16) & 0xff

export const kvRankOf = (worldSize: number, rank: number): number =>
  ((worldSize << 24) | (rank << 16) | (worldSize << 8) | rank) >>> 0

/**
 * Converts batches for a pool's registry. Omits entries of other models (null: the pool's model is unknown, so all)
 * and of further object groups, because lookups use only the first. An empty batch is kept for its number.
 */
export function batchesFor(batches: readonly Batch[], model: string | null): CacheEvents[] {
  return batches.map((batch) => {
    const keys = (batch.entries ?? [])
      .map(({ key }) => key)
      .filter((key) => (key.object_group_id ?? 0) === 0 && (model === null || key.model_name === model))
    const [first] = keys
    return {
      instance: batch.instance_id,
      incarnation: batch.incarnation,
      seq: batch.seq,
      kind: batch.event_type,
      level: batch.tier,
      backend: batch.backend,
      shared: batch.shared ?? false,
      worldSize: first === undefined ? 0 : worldSizeOf(first.kv_rank),
      ...chunkKeysOf(keys),
    }
  })
}

export function chunkKeysOf(keys: readonly ObjectKey[]): ChunkKeys {
  return {
    keys: wireKeys(
      keys.map(({ chunk_hash_hex: hash, model_name: model, cache_salt: salt = '' }) => ({ hash, model, salt })),
    ),
    ranks: Uint8Array.from(keys, ({ kv_rank: rank }) => globalRankOf(rank)),
  }
}
