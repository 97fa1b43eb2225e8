/** Keys of the registry: LMCache's hash with the model and the salt, in two lanes. */
import { chainSeed, type ChainState, chainWords } from '../tokens/block-hash.ts'
import { chunkHashes, HASH_WORDS } from './chunk-hashes.ts'

/** Half of a 256-bit hash is more than the lanes can hold. */
const KEPT_WORDS = 4

/** Model name in LMCache and salt ('' for none). */
function scopeOf(model: string, salt: string): ChainState {
  return chainSeed({ model, adapter: null, salts: [salt], tenant: null, unit: 'ids', blockTokens: 0 })
}

/** Keys of the complete chunks of a prompt. */
export function promptKeys(
  tokens: ArrayLike<number>,
  chunkTokens: number,
  { model, salt }: { readonly model: string; readonly salt: string },
): Uint32Array {
  const hashes = chunkHashes(tokens, chunkTokens)
  const keys = new Uint32Array((hashes.length / HASH_WORDS) * 2)
  const scope = scopeOf(model, salt)
  for (let at = 0; at < keys.length; at += 2) put(keys, at, scope, hashes.subarray((at / 2) * HASH_WORDS))
  return keys
}

interface WireKey {
  readonly hash: string
  readonly model: string
  readonly salt: string
}

/**
 * Keys of chunks from the hexadecimal hashes of events. Hashes of other algorithms have keys too, which no prompt has.
 */
export function wireKeys(given: readonly WireKey[]): Uint32Array {
  const keys = new Uint32Array(given.length * 2)
  const words = new Uint32Array(KEPT_WORDS)
  let scope = scopeOf('', '')
  let last: WireKey | null = null
  for (const [at, key] of given.entries()) {
    if (last === null || last.model !== key.model || last.salt !== key.salt) scope = scopeOf(key.model, key.salt)
    last = key
    for (let word = 0; word < KEPT_WORDS; word += 1) words[word] = wordAt(key.hash, word)
    put(keys, 2 * at, scope, words)
  }
  return keys
}

function put(keys: Uint32Array, at: number, scope: ChainState, words: Uint32Array): void {
  const state = { ...scope }
  chainWords(state, words, 0, KEPT_WORDS)
  keys[at] = state.lo
  keys[at + 1] = state.hi
}

/** The little-endian word at a position of a hash. 0 beyond its end. */
function wordAt(hex: string, word: number): number {
  let value = 0
  for (let byte = 3; byte >= 0; byte -= 1) {
    const from = word * 8 + byte * 2
    value = (value << 8) | (from + 2 <= hex.length ? Number.parseInt(hex.slice(from, from + 2), 16) : 0)
  }
  return value >>> 0
}
