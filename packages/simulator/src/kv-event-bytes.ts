/** Event batches as vLLM's publisher encodes them: MessagePack, in either encoding. */
import { pack, type Packable, type Wide } from './message-pack.ts'

/** @testing */
export type BlockHash = Wide | Uint8Array

/** One event with vLLM's field names. */
export type WireEvent =
  | {
      readonly type: 'BlockStored'
      readonly block_hashes: readonly BlockHash[]
      readonly parent_block_hash: BlockHash | null
      readonly token_ids: readonly number[]
      readonly block_size: number
      readonly lora_id: number | null
      readonly medium: string | null
      readonly lora_name: string | null
      readonly extra_keys: readonly (readonly Packable[] | null)[] | null
      readonly group_idx: number
      readonly kv_cache_spec_kind: string | null
    }
  | {
      readonly type: 'BlockRemoved'
      readonly block_hashes: readonly BlockHash[]
      readonly medium: string | null
      readonly group_idx: number
    }
  | { readonly type: 'AllBlocksCleared' }

/** `maps`: vLLM 0.24 and later; `arrays`: earlier versions. */
export type Encoding = 'maps' | 'arrays'

/** Encodes one batch. */
export function batchBytes(atS: number, events: readonly WireEvent[], encoding: Encoding): Uint8Array {
  const packed = events.map((event): Packable => {
    const fields = Object.entries(event) as [string, Packable][]
    return encoding === 'maps' ? { map: fields } : fields.map(([, value]) => value)
  })
  return pack([{ float: atS }, packed, 0])
}
