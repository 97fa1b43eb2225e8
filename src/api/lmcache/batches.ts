import { wireKeys } from '../../core/lmcache/chunk-keys.ts'
import type { CacheEvents, ChunkKeys } from '../../core/lmcache/registry-call.ts'
import { globalRankOf, worldSizeOf, type Batch, type ObjectKey } from './wire.ts'

/**
 * Batches as a pool's registry takes them. Entries of other models are left out (null: it is not known which is the
 * pool's, so none are), those of further object groups too: lookups ask for the first one only. What is left of a
 * batch is sent even when it is empty, because its number counts.
 */
export function batchesFor(batches: readonly Batch[], model: string | null): CacheEvents[] {
  return batches.map((batch) => {
    const keys = (batch.entries ?? []).map(({ key }) => key).filter((key) => (key.object_group_id ?? 0) === 0 && (model === null || key.model_name === model))
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
    keys: wireKeys(keys.map(({ chunk_hash_hex: hash, model_name: model, cache_salt: salt = '' }) => ({ hash, model, salt }))),
    ranks: Uint8Array.from(keys, ({ kv_rank: rank }) => globalRankOf(rank)),
  }
}
