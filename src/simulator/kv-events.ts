import type { CacheChange } from './kv-cache.ts'

/** Event batches as vLLM's publisher encodes them: MessagePack, in either encoding. */

/** A float that always takes 8 bytes, as in Python. */
export interface Float {
  readonly float: number
}
export interface Wide {
  readonly hi: number
  readonly lo: number
}
export type Packable =
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | Float
  | Wide
  | readonly Packable[]
  | { readonly map: readonly (readonly [string, Packable])[] }

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

export function pack(value: Packable): Uint8Array {
  const bytes: number[] = []
  put(bytes, value)
  return Uint8Array.from(bytes)
}

function put(to: number[], value: Packable): void {
  if (value === null) to.push(0xc0)
  else if (typeof value === 'boolean') to.push(value ? 0xc3 : 0xc2)
  else if (typeof value === 'number') putInteger(to, value)
  else if (typeof value === 'string') putText(to, value)
  else if (value instanceof Uint8Array) {
    putHead(to, value.length, [0xc4, 0xc5, 0xc6])
    to.push(...value)
  } else if (isList(value)) {
    if (value.length < 16) to.push(0x90 | value.length)
    else putHead(to, value.length, [0xdc, 0xdc, 0xdd])
    for (const inner of value) put(to, inner)
  } else if ('float' in value) {
    const bytes = new Uint8Array(8)
    new DataView(bytes.buffer).setFloat64(0, value.float)
    to.push(0xcb, ...bytes)
  } else if ('hi' in value) {
    to.push(0xcf)
    bigEndian(to, value.hi, 4)
    bigEndian(to, value.lo, 4)
  } else {
    if (value.map.length < 16) to.push(0x80 | value.map.length)
    else putHead(to, value.map.length, [0xde, 0xde, 0xdf])
    for (const [key, inner] of value.map) {
      putText(to, key)
      put(to, inner)
    }
  }
}

const isList = (value: Packable): value is readonly Packable[] => Array.isArray(value)

/** Encodes an integer in the fewest bytes. */
function putInteger(to: number[], value: number): void {
  if (value < 0) {
    to.push(0xd2)
    bigEndian(to, value >>> 0, 4)
  } else if (value < 0x80) to.push(value)
  else if (value > 0xffff_ffff) put(to, { hi: Math.floor(value / 0x1_0000_0000), lo: value >>> 0 })
  else putHead(to, value, [0xcc, 0xcd, 0xce])
}

function putText(to: number[], text: string): void {
  const bytes = new TextEncoder().encode(text)
  if (bytes.length < 32) to.push(0xa0 | bytes.length)
  else putHead(to, bytes.length, [0xd9, 0xda, 0xdb])
  to.push(...bytes)
}

/** Writes the first of three length types that fits: one, two or four bytes. Two of them may be equal. */
function putHead(to: number[], value: number, [one, two, four]: readonly [number, number, number]): void {
  const size = value < 0x100 && one !== two ? 1 : value < 0x1_0000 ? 2 : 4
  to.push(size === 1 ? one : size === 2 ? two : four)
  bigEndian(to, value, size)
}

function bigEndian(to: number[], value: number, size: number): void {
  for (let shift = (size - 1) * 8; shift >= 0; shift -= 8) to.push((value >>> shift) & 0xff)
}

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
