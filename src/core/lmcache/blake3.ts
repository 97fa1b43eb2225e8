/**
 * BLAKE3 in hash mode with 32 bytes of output, for the names of LMCache's chunks. After the specification
 * (github.com/BLAKE3-team/BLAKE3-specs): chunks of 1,024 bytes, blocks of 64, a binary tree above them.
 */

const IV = Uint32Array.of(
  0x6a09e667,
  0xbb67ae85,
  0x3c6ef372,
  0xa54ff53a,
  0x510e527f,
  0x9b05688c,
  0x1f83d9ab,
  0x5be0cd19,
)
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
const CHUNK_START = 1
const CHUNK_END = 2
const PARENT = 4
const ROOT = 8
const BLOCK_WORDS = 16
const CHUNK_WORDS = 256
const MAX_LEVELS = 54

/** Message word of each of the 16 steps in each of the 7 rounds. */
const SCHEDULE = scheduleOf()

function scheduleOf(): Uint8Array {
  const schedule = new Uint8Array(7 * 16)
  for (let word = 0; word < 16; word += 1) schedule[word] = word
  for (let round = 1; round < 7; round += 1)
    for (let word = 0; word < 16; word += 1)
      schedule[round * 16 + word] = schedule[(round - 1) * 16 + PERMUTATION[word]!]!
  return schedule
}

const block = new Uint32Array(BLOCK_WORDS)

interface Compression {
  /** No input here has 2^32 chunks. */
  readonly counter: number
  readonly length: number
  readonly flags: number
}

/**
 * Compresses `block` into the chaining value `cv[at, at + 8)`. Unrolled, the state stays in registers: five times as
 * fast.
 */
function compress(cv: Uint32Array, at: number, { counter, length, flags }: Compression): void {
  const S = SCHEDULE
  let v0 = cv[at + 0]!,
    v1 = cv[at + 1]!,
    v2 = cv[at + 2]!,
    v3 = cv[at + 3]!,
    v4 = cv[at + 4]!,
    v5 = cv[at + 5]!,
    v6 = cv[at + 6]!,
    v7 = cv[at + 7]!
  let v8 = 0x6a09e667,
    v9 = 0xbb67ae85,
    v10 = 0x3c6ef372,
    v11 = 0xa54ff53a
  let v12 = counter,
    v13 = 0,
    v14 = length,
    v15 = flags
  for (let at16 = 0; at16 < 112; at16 += 16) {
    // The four columns of the state, then its four diagonals.
    v0 = (v0 + v4 + block[S[at16 + 0]!]!) | 0
    v12 ^= v0
    v12 = (v12 >>> 16) | (v12 << 16)
    v8 = (v8 + v12) | 0
    v4 ^= v8
    v4 = (v4 >>> 12) | (v4 << 20)
    v0 = (v0 + v4 + block[S[at16 + 1]!]!) | 0
    v12 ^= v0
    v12 = (v12 >>> 8) | (v12 << 24)
    v8 = (v8 + v12) | 0
    v4 ^= v8
    v4 = (v4 >>> 7) | (v4 << 25)
    v1 = (v1 + v5 + block[S[at16 + 2]!]!) | 0
    v13 ^= v1
    v13 = (v13 >>> 16) | (v13 << 16)
    v9 = (v9 + v13) | 0
    v5 ^= v9
    v5 = (v5 >>> 12) | (v5 << 20)
    v1 = (v1 + v5 + block[S[at16 + 3]!]!) | 0
    v13 ^= v1
    v13 = (v13 >>> 8) | (v13 << 24)
    v9 = (v9 + v13) | 0
    v5 ^= v9
    v5 = (v5 >>> 7) | (v5 << 25)
    v2 = (v2 + v6 + block[S[at16 + 4]!]!) | 0
    v14 ^= v2
    v14 = (v14 >>> 16) | (v14 << 16)
    v10 = (v10 + v14) | 0
    v6 ^= v10
    v6 = (v6 >>> 12) | (v6 << 20)
    v2 = (v2 + v6 + block[S[at16 + 5]!]!) | 0
    v14 ^= v2
    v14 = (v14 >>> 8) | (v14 << 24)
    v10 = (v10 + v14) | 0
    v6 ^= v10
    v6 = (v6 >>> 7) | (v6 << 25)
    v3 = (v3 + v7 + block[S[at16 + 6]!]!) | 0
    v15 ^= v3
    v15 = (v15 >>> 16) | (v15 << 16)
    v11 = (v11 + v15) | 0
    v7 ^= v11
    v7 = (v7 >>> 12) | (v7 << 20)
    v3 = (v3 + v7 + block[S[at16 + 7]!]!) | 0
    v15 ^= v3
    v15 = (v15 >>> 8) | (v15 << 24)
    v11 = (v11 + v15) | 0
    v7 ^= v11
    v7 = (v7 >>> 7) | (v7 << 25)
    v0 = (v0 + v5 + block[S[at16 + 8]!]!) | 0
    v15 ^= v0
    v15 = (v15 >>> 16) | (v15 << 16)
    v10 = (v10 + v15) | 0
    v5 ^= v10
    v5 = (v5 >>> 12) | (v5 << 20)
    v0 = (v0 + v5 + block[S[at16 + 9]!]!) | 0
    v15 ^= v0
    v15 = (v15 >>> 8) | (v15 << 24)
    v10 = (v10 + v15) | 0
    v5 ^= v10
    v5 = (v5 >>> 7) | (v5 << 25)
    v1 = (v1 + v6 + block[S[at16 + 10]!]!) | 0
    v12 ^= v1
    v12 = (v12 >>> 16) | (v12 << 16)
    v11 = (v11 + v12) | 0
    v6 ^= v11
    v6 = (v6 >>> 12) | (v6 << 20)
    v1 = (v1 + v6 + block[S[at16 + 11]!]!) | 0
    v12 ^= v1
    v12 = (v12 >>> 8) | (v12 << 24)
    v11 = (v11 + v12) | 0
    v6 ^= v11
    v6 = (v6 >>> 7) | (v6 << 25)
    v2 = (v2 + v7 + block[S[at16 + 12]!]!) | 0
    v13 ^= v2
    v13 = (v13 >>> 16) | (v13 << 16)
    v8 = (v8 + v13) | 0
    v7 ^= v8
    v7 = (v7 >>> 12) | (v7 << 20)
    v2 = (v2 + v7 + block[S[at16 + 13]!]!) | 0
    v13 ^= v2
    v13 = (v13 >>> 8) | (v13 << 24)
    v8 = (v8 + v13) | 0
    v7 ^= v8
    v7 = (v7 >>> 7) | (v7 << 25)
    v3 = (v3 + v4 + block[S[at16 + 14]!]!) | 0
    v14 ^= v3
    v14 = (v14 >>> 16) | (v14 << 16)
    v9 = (v9 + v14) | 0
    v4 ^= v9
    v4 = (v4 >>> 12) | (v4 << 20)
    v3 = (v3 + v4 + block[S[at16 + 15]!]!) | 0
    v14 ^= v3
    v14 = (v14 >>> 8) | (v14 << 24)
    v9 = (v9 + v14) | 0
    v4 ^= v9
    v4 = (v4 >>> 7) | (v4 << 25)
  }
  cv[at + 0] = v0 ^ v8
  cv[at + 1] = v1 ^ v9
  cv[at + 2] = v2 ^ v10
  cv[at + 3] = v3 ^ v11
  cv[at + 4] = v4 ^ v12
  cv[at + 5] = v5 ^ v13
  cv[at + 6] = v6 ^ v14
  cv[at + 7] = v7 ^ v15
}

/** Writes the chaining value of one chunk of up to 1,024 bytes to `cv[at, at + 8)`. */
function hashChunk(
  input: { readonly words: Uint32Array; readonly bytes: number },
  chunk: number,
  cv: Uint32Array,
  { at, root }: { readonly at: number; readonly root: boolean },
): void {
  const from = chunk * CHUNK_WORDS
  const bytes = Math.min(1024, input.bytes - chunk * 1024)
  const blocks = Math.max(1, Math.ceil(bytes / 64))
  cv.set(IV, at)
  for (let index = 0; index < blocks; index += 1) {
    const start = from + index * BLOCK_WORDS
    for (let i = 0; i < BLOCK_WORDS; i += 1) block[i] = input.words[start + i] ?? 0
    const isLast = index === blocks - 1
    const flags = (index === 0 ? CHUNK_START : 0) | (isLast ? CHUNK_END | (root ? ROOT : 0) : 0)
    compress(cv, at, { counter: chunk, length: isLast ? bytes - index * 64 : 64, flags })
  }
}

/** Replaces the two neighbours `stack[at, at + 16)` by their parent, in the place of the first. */
function hashParent(stack: Uint32Array, at: number, root: boolean): void {
  for (let i = 0; i < BLOCK_WORDS; i += 1) block[i] = stack[at + i]!
  stack.set(IV, at)
  compress(stack, at, { counter: 0, length: 64, flags: PARENT | (root ? ROOT : 0) })
}

const stack = new Uint32Array((MAX_LEVELS + 1) * 8)

/**
 * @param words the input as little-endian words; bytes beyond `bytes` in the last one must be 0
 * @param out eight little-endian words of hash
 */
export function blake3(words: Uint32Array, bytes: number, out: Uint32Array): void {
  const input = { words, bytes }
  const chunks = Math.max(1, Math.ceil(bytes / 1024))
  let depth = 0
  for (let chunk = 0; chunk < chunks; chunk += 1) {
    hashChunk(input, chunk, stack, { at: depth * 8, root: chunks === 1 })
    depth += 1
    // Complete subtrees are merged: as many as the chunk count has trailing zero bits. The last ones are merged at the
    // end.
    let total = chunk === chunks - 1 ? 1 : chunk + 1
    while (total % 2 === 0) {
      total /= 2
      depth -= 1
      hashParent(stack, (depth - 1) * 8, false)
    }
  }
  while (depth > 1) {
    depth -= 1
    hashParent(stack, (depth - 1) * 8, depth === 1)
  }
  out.set(stack.subarray(0, 8))
}
