/** Event batches of simulated engines, for tests. */
import { createHash } from 'node:crypto'
import type { Wide } from '../../../packages/simulator/src/message-pack.ts'
import { BlockTranslator } from '../../../src/core/kv-events/block-translator.ts'
import { readEventBatch } from '../../../src/core/kv-events/event-batch.ts'
import {
  batchBytes,
  type BlockHash,
  type Encoding,
  type WireEvent,
} from '../../../packages/simulator/src/kv-event-bytes.ts'

export interface StoredBlocks {
  /** All tokens of the prompt up to the last stored block. */
  readonly prompt: readonly number[]
  /** Number of leading blocks that the event omits because they were already stored. */
  readonly from?: number
  readonly blockTokens: number
  readonly salt?: string | null
  readonly adapter?: string | null
  readonly medium?: string | null
  readonly group?: number
  /** null: the engine is too old to report it. */
  readonly attention?: string | null
}

/** Block hashes of an engine: a digest with a seed that the gateway does not have. */
export function engineHashes(
  { prompt, blockTokens, salt = null, adapter = null }: StoredBlocks,
  seed = 'none',
): BlockHash[] {
  const hashes: BlockHash[] = []
  let parent = seed
  for (let from = 0; from + blockTokens <= prompt.length; from += blockTokens) {
    parent = createHash('sha256')
      .update(JSON.stringify([parent, prompt.slice(from, from + blockTokens), from === 0 ? salt : null, adapter]))
      .digest('hex')
    hashes.push({ hi: Number.parseInt(parent.slice(48, 56), 16), lo: Number.parseInt(parent.slice(56), 16) })
  }
  return hashes
}

export function stored(what: StoredBlocks): WireEvent {
  const {
    prompt,
    from = 0,
    blockTokens,
    salt = null,
    adapter = null,
    medium = 'GPU',
    group = 0,
    attention = null,
  } = what
  const hashes = engineHashes(what)
  const extra = hashes.map((_, at) => [
    ...(adapter === null ? [] : [adapter]),
    ...(at === 0 && salt !== null ? [salt] : []),
  ])
  return {
    type: 'BlockStored',
    block_hashes: hashes.slice(from),
    parent_block_hash: from === 0 ? null : hashes[from - 1]!,
    token_ids: prompt.slice(from * blockTokens, hashes.length * blockTokens),
    block_size: blockTokens,
    lora_id: adapter === null ? null : 1,
    medium,
    lora_name: adapter,
    extra_keys: extra.slice(from).map((keys) => (keys.length === 0 ? null : keys)),
    group_idx: group,
    kv_cache_spec_kind: attention,
  }
}

/** Event that removes the block at an index of a prompt. */
export function removed(what: StoredBlocks, at: number): WireEvent {
  return {
    type: 'BlockRemoved',
    block_hashes: [engineHashes(what)[at]!],
    medium: what.medium ?? 'GPU',
    group_idx: what.group ?? 0,
  }
}

export const cleared: WireEvent = { type: 'AllBlocksCleared' }

export const framed = (seq: number, events: readonly WireEvent[], atS = 1000 + seq, encoding: Encoding = 'maps') => ({
  seq,
  payload: batchBytes(atS, events, encoding),
})

export const span = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at)

/** Python's signed 64-bit integer. */
export const signed = (hash: BlockHash): Wide => {
  const { hi, lo } = hash as Wide
  return { hi, lo, signed: hi >= 2 ** 31 }
}

const POOL_BLOCK_TOKENS = 64

/** Blocks that a pool takes for cached after these batches. */
export function indexOf(...payloads: readonly Uint8Array[]): readonly string[] {
  const held = new Map<string, number>()
  const count = (lo: number, hi: number, by: number): void => {
    const left = (held.get(`${lo}:${hi}`) ?? 0) + by
    if (left === 0) held.delete(`${lo}:${hi}`)
    else held.set(`${lo}:${hi}`, left)
  }
  const translator = new BlockTranslator(
    { model: 'm', blockTokens: POOL_BLOCK_TOKENS },
    { hold: (lo, hi) => count(lo, hi, 1), drop: (lo, hi) => count(lo, hi, -1), clear: () => held.clear() },
  )
  for (const payload of payloads) for (const event of readEventBatch(payload).events) translator.apply(event)
  return [...held.keys()]
}
