/**
 * Names of LMCache's chunks (`TokenHasher` of 0.5.6, algorithm blake3): each is the hash of the one before and the
 * chunk's ids, big-endian. The first one's parent is fixed: eight zero bytes and the id 0.
 */
import { blake3 } from './blake3.ts'
import { chainSeed, chainWords, type ChainState } from '../tokens/block-hash.ts'

/** LMCache's default, which nearly every fleet uses. */
export const DEFAULT_CHUNK_TOKENS = 256

/**
 * Tokens per chunk, derived from the number of chunks that a coordinator made of prompts: `chunks = floor(tokens /
 * size)`. Every response narrows the range; within it the usual size is taken, or else the roundest number.
 */
export class ChunkSize {
  #low = 1
  #high = Infinity
  #value = DEFAULT_CHUNK_TOKENS
  #known = false

  /** In tokens. A guess until a response with chunks. */
  get tokens(): number {
    return this.#value
  }

  /** The range has both bounds. */
  get known(): boolean {
    return this.#known
  }

  /** Learns from a prompt of `tokens` tokens with `chunks` complete chunks. */
  learn(tokens: number, chunks: number): void {
    const low = Math.floor(tokens / (chunks + 1)) + 1
    const high = chunks === 0 ? Infinity : Math.floor(tokens / chunks)
    if (low > high) return
    const meets = low <= this.#high && high >= this.#low
    // A coordinator with a new size invalidates what was learned.
    this.#low = meets ? Math.max(this.#low, low) : low
    this.#high = meets ? Math.min(this.#high, high) : high
    this.#known = this.#high < Infinity
    this.#value = this.#holds(DEFAULT_CHUNK_TOKENS) ? DEFAULT_CHUNK_TOKENS : roundest(this.#low, this.#high)
  }

  #holds(size: number): boolean {
    return size >= this.#low && size <= this.#high
  }
}

/** The number in [low, high] that the highest power of two divides; the smallest of them. */
function roundest(low: number, high: number): number {
  let step = 1
  while (Math.ceil(low / (step * 2)) * step * 2 <= Math.min(high, 2 * low)) step *= 2
  return Math.ceil(low / step) * step
}

const HASH_WORDS = 8

/** Parent of the first chunk. */
const SEED = seed()

function seed(): Uint32Array {
  const out = new Uint32Array(HASH_WORDS)
  blake3(new Uint32Array(3), 12, out)
  return out
}

/** Swaps the bytes of a word. */
function swapped(word: number): number {
  return ((word & 0xff) << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24)
}

/** Hashes of the complete chunks of a prompt, eight little-endian words each. */
export function chunkHashes(tokens: ArrayLike<number>, chunkTokens: number): Uint32Array {
  const count = Math.floor(tokens.length / chunkTokens)
  const hashes = new Uint32Array(count * HASH_WORDS)
  const words = new Uint32Array(HASH_WORDS + chunkTokens)
  words.set(SEED)
  for (let chunk = 0; chunk < count; chunk += 1) {
    for (let i = 0; i < chunkTokens; i += 1) words[HASH_WORDS + i] = swapped(tokens[chunk * chunkTokens + i]!)
    const own = hashes.subarray(chunk * HASH_WORDS, (chunk + 1) * HASH_WORDS)
    blake3(words, words.byteLength, own)
    words.set(own)
  }
  return hashes
}

/** Hexadecimal form of a hash, as on the wire. */
export function hashHex(hashes: Uint32Array, at: number): string {
  let hex = ''
  for (let i = 0; i < HASH_WORDS; i += 1)
    hex += (swapped(hashes[at * HASH_WORDS + i]!) >>> 0).toString(16).padStart(8, '0')
  return hex
}

/* Keys of the registry: LMCache's hash with the model and the salt, in two lanes. */

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

export interface WireKey {
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
