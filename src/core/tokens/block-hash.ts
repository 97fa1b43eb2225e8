/**
 * Chained block hashes: each full block of a prompt gets one 64-bit hash that also covers every block before
 * it, so equal hashes mean equal whole prefixes. Two 32-bit lanes and `Math.imul`: BigInt is 250 times slower.
 * Not cryptographic. A collision can only send a request to a worse engine, never show anyone's data.
 */

/** The state of a chain after some blocks: [lo, hi]. */
export interface ChainState {
  lo: number
  hi: number
}

/** What separates one cache from another. Equal prompts under different seeds have no equal hash. */
export interface ChainScope {
  readonly model: string
  readonly adapter: string | null
  /** Salts in force, the client's and the key's; engines isolate by them, so we must too. */
  readonly salts: readonly string[]
  /** Set only where tenants must not share. */
  readonly tenant: string | null
  /** What a block is made of and how big it is: token ids and text chunks never compare. */
  readonly unit: 'ids' | 'bytes'
  readonly blockTokens: number
}

// Lanes are 32-bit integers here; a state outside holds them unsigned, which costs a box each time one is stored.

/**
 * The low lane with a word taken in. The shift after the product carries high bits down again; a product alone only
 * moves bits up.
 */
function mixLow(lane: number, word: number): number {
  const mixed = Math.imul(lane ^ word, 0x9e3779b1)
  return mixed ^ (mixed >>> 15)
}

/** The high lane with a word taken in. */
function mixHigh(lane: number, word: number): number {
  const mixed = Math.imul((lane + word) | 0, 0x85ebca77)
  return mixed ^ (mixed >>> 13)
}

/** Murmur3's ending: each bit reaches every bit of the lane, and it can be undone, so no state is lost. */
function spread(lane: number, first: number, second: number): number {
  let mixed = Math.imul(lane ^ (lane >>> 16), first)
  mixed = Math.imul(mixed ^ (mixed >>> 13), second)
  return mixed ^ (mixed >>> 16)
}

const spreadLow = (lane: number): number => spread(lane, 0x85ebca6b, 0xc2b2ae35)
const spreadHigh = (lane: number): number => spread(lane, 0xc2b2ae35, 0x85ebca6b)

/** Ends a block of `length` words or characters that the state has taken in: from here on it names them all. */
export function endBlock(state: ChainState, length: number): void {
  let a = state.lo ^ length
  let b = state.hi ^ length
  // Sums before and after: each bit of either lane reaches both.
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

/** Feeds `words[from, to)` to the chain as one block. */
export function chainWords(state: ChainState, words: Uint32Array | readonly number[], from: number, to: number): void {
  absorbWords(state, words, from, to)
  endBlock(state, to - from)
}

/** Takes in a part of a block: `endBlock` ends it. */
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

/** Feeds `text[from, to)`, two UTF-16 units a step, and its length, so that `ab|c` and `a|bc` differ. */
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

/** Where the chain of a scope starts: the same on every edge of a pool. */
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
 * Hashes of the full blocks of some prompts that lie in `words`; `spans` is [from0, to0, from1, to1, …]. What is
 * left over at the end of a prompt has none. The chain goes on from prompt to prompt, and `state` is where it ends.
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
  // `chainWords` for each block, without a word to the state in between: a third of the time of a long prompt.
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
