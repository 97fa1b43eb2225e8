/**
 * 32-bit hash of a text's UTF-16 code units (FNV-1a, then murmur3's finaliser). For placement only, never for secrets.
 */
export function hashText(text: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  return mix(hash)
}

/** Combines two hashes; the order matters. */
export function hashPair(one: number, other: number): number {
  return mix(Math.imul(one, 0x9e3779b1) ^ other)
}

function mix(hash: number): number {
  let mixed = hash ^ (hash >>> 16)
  mixed = Math.imul(mixed, 0x85ebca6b)
  mixed ^= mixed >>> 13
  mixed = Math.imul(mixed, 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
