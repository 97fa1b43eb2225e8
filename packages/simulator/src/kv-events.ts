import type { CacheChange } from './cache-journal.ts'
import type { WireEvent } from './kv-event-bytes.ts'

/** Destination of an engine's KV events, set by a host with sockets. */
export interface KvEventSink {
  publish(changes: readonly CacheChange[], atMs: number): void
  /** The engine's process restarted: sequence numbers start at 0, and no batch is kept. */
  restarted(): void
  /** The answer of `GET /kv_event_sources`. */
  sources(): object
}

/** Converts changes to vLLM's events. */
export function wireEvents(changes: readonly CacheChange[], blockTokens: number): WireEvent[] {
  return changes.map((change): WireEvent => {
    if (change.kind === 'cleared') return { type: 'AllBlocksCleared' }
    if (change.kind === 'removed')
      return { type: 'BlockRemoved', block_hashes: [{ hi: change.high, lo: change.low }], medium: 'GPU', group_idx: 0 }
    const { content, blocks, from, to } = change
    const hash = (at: number) => ({ hi: blocks[at * 2 + 1]!, lo: blocks[at * 2]! })
    const places = Array.from({ length: to - from }, (_, index) => from + index)
    const extra = places.map((at) => [
      ...(content.adapter === null ? [] : [content.adapter]),
      ...(at === 0 && content.salt !== null ? [content.salt] : []),
    ])
    return {
      type: 'BlockStored',
      block_hashes: places.map(hash),
      parent_block_hash: from === 0 ? null : hash(from - 1),
      token_ids: [...content.tokens.subarray(from * blockTokens, to * blockTokens)],
      block_size: blockTokens,
      lora_id: content.adapter === null ? null : 1,
      medium: 'GPU',
      lora_name: content.adapter,
      extra_keys: extra.map((keys) => (keys.length === 0 ? null : keys)),
      group_idx: 0,
      kv_cache_spec_kind: 'full_attention',
    }
  })
}
