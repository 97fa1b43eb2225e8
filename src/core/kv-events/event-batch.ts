/**
 * Decoder of vLLM's KV events (vllm/distributed/kv_events.py), in both encodings: positional arrays up to 0.23, and
 * maps with a `type` since vllm-project/vllm#42892. Unknown fields are ignored, unknown events counted.
 */
import { type Msgpack, MsgpackError, readMsgpack, type WideInteger } from './msgpack.ts'

/** The engine's id of a block, as an opaque string. */
export type EngineHash = string

export interface BlocksStored {
  readonly kind: 'stored'
  readonly hashes: readonly EngineHash[]
  /** Parent block; null: the first block of a prompt. */
  readonly parent: EngineHash | null
  /** Token ids of all blocks in order. */
  readonly tokens: readonly number[]
  /** Tokens in a block. */
  readonly blockTokens: number
  readonly adapter: Adapter
  /** Medium of the blocks: `GPU` (also on CPUs), `CPU`, `STORAGE`, …; null: not sent by old engines. */
  readonly medium: string | null
  /** `cache_salt` of the prompt, which SGLang sends as a field of its own; null: not sent, or none. */
  readonly salt: string | null
  /** Additional hash inputs per block; null: none. */
  readonly extraKeys: readonly (readonly Msgpack[] | null)[]
  /** KV cache group, for models with several kinds of attention. */
  readonly group: number
  /**
   * Kind of the group (vLLM's KVCacheSpecKind: `full_attention`, `sliding_window`, …); null: not sent by old engines.
   */
  readonly attention: string | null
}

/** Adapter; `unnamed`: an old engine sent only its number. */
type Adapter =
  | { readonly kind: 'none' }
  | { readonly kind: 'named'; readonly name: string }
  | { readonly kind: 'unnamed' }

interface BlocksRemoved {
  readonly kind: 'removed'
  readonly hashes: readonly EngineHash[]
  readonly medium: string | null
  readonly group: number
}

export type KvEvent = BlocksStored | BlocksRemoved | { readonly kind: 'cleared' }

export interface EventBatch {
  /** Time by the engine's clock, seconds. */
  readonly atS: number
  readonly events: readonly KvEvent[]
  /** Number of events of unknown kinds. */
  readonly unknown: number
  /** Data-parallel rank; null: not sent. */
  readonly rank: number | null
}

/** Fields of one event by name, for both encodings. */
type Fields = (name: string) => Msgpack | undefined

const POSITIONS: Readonly<Record<string, readonly string[]>> = {
  BlockStored: [
    'block_hashes',
    'parent_block_hash',
    'token_ids',
    'block_size',
    'lora_id',
    'medium',
    'lora_name',
    'extra_keys',
    'group_idx',
    'kv_cache_spec_kind',
  ],
  BlockRemoved: ['block_hashes', 'medium', 'group_idx'],
  AllBlocksCleared: [],
}

/** Decodes an event batch. Throws a MsgpackError. */
export function readEventBatch(payload: Uint8Array): EventBatch {
  const batch = listOf(readMsgpack(payload), 'the batch')
  const [at, list, rank] = batch
  if (typeof at !== 'number') throw new MsgpackError('the batch does not begin with its time')
  const events: KvEvent[] = []
  let unknown = 0
  for (const one of listOf(list, 'events')) {
    const event = eventOf(one)
    if (event === null) unknown += 1
    else events.push(event)
  }
  return { atS: at, events, unknown, rank: typeof rank === 'number' ? rank : null }
}

function eventOf(event: Msgpack): KvEvent | null {
  const [type, fields] = typeAndFields(event)
  if (type === 'AllBlocksCleared') return { kind: 'cleared' }
  if (type === 'BlockRemoved') {
    return { kind: 'removed', hashes: hashesOf(fields), medium: textOf(fields('medium')), group: groupOf(fields) }
  }
  if (type !== 'BlockStored') return null
  const hashes = hashesOf(fields)
  const parent = fields('parent_block_hash') ?? null
  return {
    kind: 'stored',
    hashes,
    parent: parent === null ? null : hashOf(parent),
    tokens: listOf(fields('token_ids'), 'token_ids').map((id) => countOf(id, 'a token id')),
    blockTokens: countOf(fields('block_size'), 'block_size'),
    adapter: adapterOf(fields),
    medium: textOf(fields('medium')),
    salt: textOf(fields('cache_salt')),
    extraKeys: extraKeysOf(fields('extra_keys')),
    group: groupOf(fields),
    attention: textOf(fields('kv_cache_spec_kind')),
  }
}

function typeAndFields(given: Msgpack): readonly [type: string, fields: Fields] {
  if (given instanceof Map) return [textOf(given.get('type')) ?? '', (name) => given.get(name)]
  const list = listOf(given, 'an event')
  const type = textOf(list[0]) ?? ''
  const positions = Object.hasOwn(POSITIONS, type) ? POSITIONS[type]! : []
  // A field without a position was added after the change to maps.
  return [type, (name) => (positions.includes(name) ? list[positions.indexOf(name) + 1] : undefined)]
}

function adapterOf(fields: Fields): Adapter {
  const name = textOf(fields('lora_name'))
  if (name !== null) return { kind: 'named', name }
  return (fields('lora_id') ?? null) === null ? { kind: 'none' } : { kind: 'unnamed' }
}

function extraKeysOf(given: Msgpack | undefined): (readonly Msgpack[] | null)[] {
  if (given === undefined || given === null) return []
  return listOf(given, 'extra_keys').map((keys) => (keys === null ? null : listOf(keys, 'extra keys of a block')))
}

const groupOf = (fields: Fields): number => countOf(fields('group_idx') ?? 0, 'group_idx')

const hashesOf = (fields: Fields): EngineHash[] => listOf(fields('block_hashes'), 'block_hashes').map(hashOf)

/** Maximum length of a block id: twice the longest digest. */
const MAX_HASH_BYTES = 128

/** Decodes a block id: a 64-bit integer, or a digest with `VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0`. */
function hashOf(given: Msgpack): EngineHash {
  if (given instanceof Uint8Array && given.length <= MAX_HASH_BYTES) return String.fromCharCode(...given)
  if (typeof given === 'number' && Number.isSafeInteger(given))
    return lanes(Math.floor(given / 4_294_967_296) >>> 0, given >>> 0)
  if (isWideInteger(given)) return lanes(given.hi, given.lo)
  throw new MsgpackError('a block hash is neither an integer nor a digest')
}

const lanes = (hi: number, lo: number): string => String.fromCharCode(hi >>> 16, hi & 0xffff, lo >>> 16, lo & 0xffff)

function isWideInteger(value: Msgpack): value is WideInteger {
  return typeof value === 'object' && value !== null && 'hi' in value
}

function listOf(value: Msgpack | undefined, what: string): readonly Msgpack[] {
  if (Array.isArray(value)) return value as readonly Msgpack[]
  throw new MsgpackError(`${what} is not a list`)
}

function countOf(value: Msgpack | undefined, what: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw new MsgpackError(`${what} is not an integer`)
}

const textOf = (value: Msgpack | undefined): string | null => (typeof value === 'string' ? value : null)
