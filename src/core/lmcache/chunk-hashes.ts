/**
 * Names of LMCache's chunks (`TokenHasher` of 0.5.6, algorithm blake3): each is the hash of the one before and the
 * chunk's ids, big-endian. The first one's parent is fixed: eight zero bytes and the id 0.
 */
import { blake3 } from './blake3.ts'

export const HASH_WORDS = 8

/** Parent of the first chunk. */
const SEED = seed()

function seed(): Uint32Array {
  const out = new Uint32Array(HASH_WORDS)
  blake3(new Uint32Array(3), 12, out)
  return out
}

/** Swaps the bytes of a word. */
function swapBytes(word: number): number {
  return ((word & 0xff) << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24)
}

/** Hashes of the complete chunks of a prompt, eight little-endian words each. */
export function chunkHashes(tokens: ArrayLike<number>, chunkTokens: number): Uint32Array {
  const count = Math.floor(tokens.length / chunkTokens)
  const hashes = new Uint32Array(count * HASH_WORDS)
  const words = new Uint32Array(HASH_WORDS + chunkTokens)
  words.set(SEED)
  for (let chunk = 0; chunk < count; chunk += 1) {
    for (let i = 0; i < chunkTokens; i += 1) words[HASH_WORDS + i] = swapBytes(tokens[chunk * chunkTokens + i]!)
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
    hex += (swapBytes(hashes[at * HASH_WORDS + i]!) >>> 0).toString(16).padStart(8, '0')
  return hex
}
