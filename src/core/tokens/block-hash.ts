/**
 * Chained block hashes: each full block of a prompt gets one 64-bit hash that also covers every block before
 * it, so equal hashes mean equal whole prefixes. Two 32-bit lanes and `Math.imul`: BigInt is 250 times slower.
 * Not cryptographic. A collision can only send a request to a worse engine, never show anyone's data.
 */

/** State of a chain after some blocks: [lo, hi]. */
export interface ChainState {
  lo: number
  hi: number
}

/** Scope of a cache. Equal prompts in different scopes have different hashes. @testing */
export interface ChainScope {
  readonly model: string
  readonly adapter: string | null
  /** Cache salts of the client and the key. Engines separate caches by them. */
  readonly salts: readonly string[]
  /** Set only if tenants must not share caches. */
  readonly tenant: string | null
  /** Unit and size of a block, because token ids and bytes are never comparable. */
  readonly unit: 'ids' | 'bytes'
  readonly blockTokens: number
}

// Lanes are signed 32-bit integers here. The state holds them unsigned, and V8 boxes each such value that is stored.

/** Mixes a word into the low lane. The shift after the product moves high bits down; a product only moves bits up. */
function mixLow(lane: number, word: number): number {
  const mixed = Math.imul(lane ^ word, 0x9e3779b1)
  return mixed ^ (mixed >>> 15)
}

/** Mixes a word into the high lane. */
function mixHigh(lane: number, word: number): number {
  const mixed = Math.imul((lane + word) | 0, 0x85ebca77)
  return mixed ^ (mixed >>> 13)
}

/** Murmur3's finalizer: each bit affects every bit of the lane, and it is invertible, so no state is lost. */
function spread(lane: number, first: number, second: number): number {
  let mixed = Math.imul(lane ^ (lane >>> 16), first)
  mixed = Math.imul(mixed ^ (mixed >>> 13), second)
  return mixed ^ (mixed >>> 16)
}

const spreadLow = (lane: number): number => spread(lane, 0x85ebca6b, 0xc2b2ae35)
const spreadHigh = (lane: number): number => spread(lane, 0xc2b2ae35, 0x85ebca6b)

/** Ends a block of `length` words or characters; the state is then its hash. */
export function endBlock(state: ChainState, length: number): void {
  let a = state.lo ^ length
  let b = state.hi ^ length
  // Additions before and after make each bit of either lane affect both.
  a = (a + b) | 0
  b = (b + a) | 0
  a = spreadLow(a)
  b = spreadHigh(b)
  a = (a + b) | 0
  b = (b + a) | 0
  // Tables use an all-zero entry for "empty".
  state.lo = a === 0 && b === 0 ? 1 : a >>> 0
  state.hi = b >>> 0
}

/** Adds `words[from, to)` to the chain as one block. */
export function chainWords(state: ChainState, words: Uint32Array | readonly number[], from: number, to: number): void {
  absorbWords(state, words, from, to)
  endBlock(state, to - from)
}

/** Adds part of a block; `endBlock` ends it. */
export function absorbWords(state: ChainState, words: Uint32Array | readonly number[], from: number, to: number): void {
  let a = state.lo
  let b = state.hi
  for (let i = from; i < to; i++) {
    const word = words[i] as number
    a = mixLow(a, word)
    b = mixHigh(b, word)
  }
  state.lo = a
  state.hi = b
}

/** Adds `text[from, to)`, two UTF-16 units per step, and its length, so that `ab|c` and `a|bc` differ. */
export function chainText(state: ChainState, text: string, from = 0, to: number = text.length): void {
  let a = state.lo
  let b = state.hi
  for (let i = from; i < to; i += 2) {
    const word = text.charCodeAt(i) | (i + 1 < to ? text.charCodeAt(i + 1) << 16 : 0)
    a = mixLow(a, word)
    b = mixHigh(b, word)
  }
  state.lo = a
  state.hi = b
  endBlock(state, to - from)
}

/** Initial state of a scope's chain, equal on every edge of a pool. */
export function chainSeed(scope: ChainScope): ChainState {
  const state: ChainState = { lo: 0x243f6a88, hi: 0x13198a2e }
  const absent = [0]
  const field = (tag: number, text: string | null): void => {
    chainWords(state, [tag, text === null ? 0 : 1], 0, 2)
    if (text === null) chainWords(state, absent, 0, 1)
    else chainText(state, text)
  }
  field(1, scope.model)
  field(2, scope.adapter)
  field(3, scope.tenant)
  field(4, scope.unit)
  for (const salt of scope.salts) field(5, salt)
  chainWords(state, [6, scope.blockTokens], 0, 2)
  return state
}

/**
 * Hashes the full blocks of prompts in `words`; `spans` is [from0, to0, from1, to1, …]. An incomplete block at the end
 * of a prompt has no hash. The chain continues from prompt to prompt, and `state` is its end.
 */
export function chainBlocks(
  state: ChainState,
  words: Uint32Array,
  spans: readonly number[],
  blockWords: number,
): Uint32Array {
  let count = 0
  for (let i = 0; i < spans.length; i += 2)
    count += Math.floor(((spans[i + 1] as number) - (spans[i] as number)) / blockWords)
  const blocks = new Uint32Array(count * 2)
  // `chainWords` inlined, without writing the state between blocks: a third of the time for a long prompt.
  let a = state.lo
  let b = state.hi
  let at = 0
  for (let i = 0; i < spans.length; i += 2) {
    const last = (spans[i + 1] as number) - blockWords
    for (let from = spans[i] as number; from <= last; from += blockWords) {
      for (let word = from; word < from + blockWords; word++) {
        a = mixLow(a, words[word] as number)
        b = mixHigh(b, words[word] as number)
      }
      a = ((a ^ blockWords) + (b ^ blockWords)) | 0
      b = ((b ^ blockWords) + a) | 0
      a = spreadLow(a)
      b = spreadHigh(b)
      a = (a + b) | 0
      b = (b + a) | 0
      if (a === 0 && b === 0) a = 1
      blocks[at++] = a
      blocks[at++] = b
    }
  }
  state.lo = a >>> 0
  state.hi = b >>> 0
  return blocks
}
