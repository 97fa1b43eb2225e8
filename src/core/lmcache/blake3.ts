/**
 * BLAKE3, hash mode, 32 bytes of output: LMCache names chunks by it. After the specification
 * (github.com/BLAKE3-team/BLAKE3-specs): chunks of 1,024 bytes, blocks of 64, a binary tree above them.
 */

const IV = Uint32Array.of(0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19)
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
const CHUNK_START = 1
const CHUNK_END = 2
const PARENT = 4
const ROOT = 8
const BLOCK_WORDS = 16
const CHUNK_WORDS = 256
const MOST_LEVELS = 54

/** Which message word each of the 16 steps of each of the 7 rounds takes. */
const SCHEDULE = scheduleOf()

function scheduleOf(): Uint8Array {
  const schedule = new Uint8Array(7 * 16)
  for (let word = 0; word < 16; word += 1) schedule[word] = word
  for (let round = 1; round < 7; round += 1) for (let word = 0; word < 16; word += 1) schedule[round * 16 + word] = schedule[(round - 1) * 16 + PERMUTATION[word]!]!
  return schedule
}

const state = new Uint32Array(16)
const block = new Uint32Array(BLOCK_WORDS)

function mix(a: number, b: number, c: number, d: number, x: number, y: number): void {
  let va = (state[a]! + state[b]! + x) | 0
  let vd = state[d]! ^ va
  vd = (vd >>> 16) | (vd << 16)
  let vc = (state[c]! + vd) | 0
  let vb = state[b]! ^ vc
  vb = (vb >>> 12) | (vb << 20)
  va = (va + vb + y) | 0
  vd ^= va
  vd = (vd >>> 8) | (vd << 24)
  vc = (vc + vd) | 0
  vb ^= vc
  vb = (vb >>> 7) | (vb << 25)
  state[a] = va
  state[b] = vb
  state[c] = vc
  state[d] = vd
}

/** Compresses `block` into the chaining value `cv[at, at + 8)`. No input here has 2^32 chunks. */
function compress(cv: Uint32Array, at: number, { counter, length, flags }: { readonly counter: number; readonly length: number; readonly flags: number }): void {
  for (let i = 0; i < 8; i += 1) state[i] = cv[at + i]!
  for (let i = 0; i < 4; i += 1) state[8 + i] = IV[i]!
  state[12] = counter
  state[13] = 0
  state[14] = length
  state[15] = flags
  for (let at16 = 0; at16 < 112; at16 += 16) {
    const word = (step: number): number => block[SCHEDULE[at16 + step]!]!
    mix(0, 4, 8, 12, word(0), word(1))
    mix(1, 5, 9, 13, word(2), word(3))
    mix(2, 6, 10, 14, word(4), word(5))
    mix(3, 7, 11, 15, word(6), word(7))
    mix(0, 5, 10, 15, word(8), word(9))
    mix(1, 6, 11, 12, word(10), word(11))
    mix(2, 7, 8, 13, word(12), word(13))
    mix(3, 4, 9, 14, word(14), word(15))
  }
  for (let i = 0; i < 8; i += 1) cv[at + i] = state[i]! ^ state[i + 8]!
}

/** The chaining value of one chunk of up to 1,024 bytes, into `cv[at, at + 8)`. */
function hashChunk(input: { readonly words: Uint32Array; readonly bytes: number }, chunk: number, cv: Uint32Array, { at, root }: { readonly at: number; readonly root: boolean }): void {
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

/** `stack[at, at + 16)` are two neighbours; their parent takes the place of the first. */
function hashParent(stack: Uint32Array, at: number, root: boolean): void {
  for (let i = 0; i < BLOCK_WORDS; i += 1) block[i] = stack[at + i]!
  stack.set(IV, at)
  compress(stack, at, { counter: 0, length: 64, flags: PARENT | (root ? ROOT : 0) })
}

const stack = new Uint32Array((MOST_LEVELS + 1) * 8)

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
    // Whole subtrees close as they fill up: as many as the count of chunks has trailing zero bits. The last stay for the end.
    for (let total = chunk + 1; total % 2 === 0 && chunk < chunks - 1; total /= 2) {
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
