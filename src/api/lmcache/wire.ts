/** The bodies LMCache 0.5.6 sends to its coordinator, as far as the registry reads them. */
import * as z from 'zod/mini'

const text = z.string().check(z.maxLength(1024))
const count = z.int().check(z.gte(0))

export const objectKey = z.object({
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

const batch = z.object({
  instance_id: text.check(z.minLength(1)),
  incarnation: count,
  seq: z.int().check(z.gte(1)),
  event_type: z.enum(['store', 'delete', 'access', 'config']),
  tier: z.enum(['l1', 'l2']),
  backend: text,
  entries: z.optional(z.array(z.object({ key: objectKey }))),
  shared: z.optional(z.boolean()),
})
export type Batch = z.infer<typeof batch>
export const eventsBody = z.object({ batches: z.optional(z.array(batch)) })

export const lookupBody = z.object({
  keys: z.optional(z.array(objectKey)),
  token_ids: z.optional(z.array(z.int().check(z.gte(0), z.lte(0xffff_ffff)))),
  model_name: z.optional(text),
  world_size: z.optional(z.int().check(z.gte(1), z.lte(255))),
  cache_salt: z.optional(text),
})

/** What `kv_rank` packs: `world_size << 24 | global_rank << 16 | local_world_size << 8 | local_rank`. */
export const worldSizeOf = (kvRank: number): number => (kvRank >>> 24) & 0xff
export const globalRankOf = (kvRank: number): number => (kvRank >>> 16) & 0xff
export const kvRankOf = (worldSize: number, rank: number): number => ((worldSize << 24) | (rank << 16) | (worldSize << 8) | rank) >>> 0
