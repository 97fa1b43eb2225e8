/**
 * vLLM's block hashes with `--prefix-caching-hash-algo sha256_cbor`: sha256 over canonical CBOR of
 * [parent digest, [token ids], extra keys or null]; KV events carry the last 8 bytes as an unsigned integer
 * (vllm/v1/core/kv_cache_utils.py). The first parent is the hash of PYTHONHASHSEED's text.
 */
import { createHash } from 'node:crypto'

export interface HashScope {
  readonly hashSeed: string
  readonly blockTokens: number
  readonly cacheSalt: string | null
}

/** Hashes of the full blocks, as decimal strings. */
export function vllmBlockHashes(tokens: readonly number[], { hashSeed, blockTokens, cacheSalt }: HashScope): string[] {
  const hashes: string[] = []
  let parent = sha256(cbor(hashSeed))
  for (let from = 0; from + blockTokens <= tokens.length; from += blockTokens) {
    // The salt is in the first block only; every later block has it through its parent.
    const extra = from === 0 && cacheSalt !== null ? [['cache_salt', cacheSalt]] : null
    parent = sha256(cbor([parent, tokens.slice(from, from + blockTokens), extra]))
    hashes.push(parent.readBigUInt64BE(24).toString())
  }
  return hashes
}

type CborValue = number | string | null | Buffer | readonly CborValue[]

/** As much of CBOR as hashes need. */
function cbor(value: CborValue): Buffer {
  if (value === null) return Buffer.from([0xf6])
  if (typeof value === 'number') return head(0, value)
  if (typeof value === 'string') {
    const bytes = Buffer.from(value, 'utf8')
    return Buffer.concat([head(3, bytes.length), bytes])
  }
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value])
  const list = value as readonly CborValue[]
  return Buffer.concat([head(4, list.length), ...list.map(cbor)])
}

/** Major type and a count or value in the shortest form. */
function head(major: number, value: number): Buffer {
  const kind = major << 5
  if (value < 24) return Buffer.from([kind | value])
  if (value < 0x100) return Buffer.from([kind | 24, value])
  if (value < 0x10000) return Buffer.from([kind | 25, value >> 8, value & 0xff])
  return Buffer.from([kind | 26, (value >>> 24) & 0xff, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff])
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}
