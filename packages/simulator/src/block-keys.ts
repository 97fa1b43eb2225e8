/** Hashes of texts, tokens and blocks. */

/** Computes two 32-bit lanes that depend on all previous tokens: MurmurHash3's mixer with two seeds. */
function mix(hash: number, value: number): number {
  let word = Math.imul(value, 0xcc9e2d51)
  word = Math.imul((word << 15) | (word >>> 17), 0x1b873593)
  const turned = hash ^ word
  return (Math.imul((turned << 13) | (turned >>> 19), 5) + 0xe6546b64) | 0
}

function finish(hash: number): number {
  let mixed = hash ^ (hash >>> 16)
  mixed = Math.imul(mixed, 0x85ebca6b)
  mixed ^= mixed >>> 13
  mixed = Math.imul(mixed, 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** Hashes any text to 32 bits. */
export function hashText(text: string, seed = 0): number {
  let hash = seed
  for (let at = 0; at < text.length; at += 1) hash = mix(hash, text.charCodeAt(at))
  return finish(mix(hash, text.length))
}

/** Computes one step of a rolling hash over tokens, 32 bits unsigned. */
export function rollHash(state: number, token: number): number {
  return finish(mix(state, token))
}

/**
 * Computes chained keys of the full blocks of `tokens`, two lanes per block. Prompts share keys exactly as far as they
 * are equal; `salt` (model, adapter, cache_salt) separates prompts that must not share.
 */
export function blockKeys(tokens: Uint32Array, blockTokens: number, salt: string): Uint32Array {
  const count = Math.floor(tokens.length / blockTokens)
  const keys = new Uint32Array(count * 2)
  let low = hashText(salt, 0x1234_5678)
  let high = hashText(salt, 0x5bd1_e995)
  for (let block = 0; block < count; block += 1) {
    for (let at = block * blockTokens; at < (block + 1) * blockTokens; at += 1) {
      const token = tokens[at]!
      low = mix(low, token)
      high = mix(high, token ^ 0x2545_f491)
    }
    keys[block * 2] = finish(low)
    keys[block * 2 + 1] = finish(high)
  }
  return keys
}

/** Combines both lanes into one number for a set: 53 bits of them. */
export function keyAt(blocks: Uint32Array, at: number): number {
  return blocks[at * 2]! * 2 ** 21 + (blocks[at * 2 + 1]! >>> 11)
}
