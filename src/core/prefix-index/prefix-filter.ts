/**
 * Filter of prefixes that a region has cached: truncated block hashes at certain depths, as a short text. Hashes are
 * chained, so one block hash stands for all blocks before it.
 */

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
/** Escape digit: this many hashes are skipped, and more digits follow. */
const SKIP = 63 * 64
/** Additional bits per entry: at most one of 2^11 absent prompts is a false positive. */
const SPARE_BITS = 11
/** Maximum length of a text, about 30,000 entries. Longer texts are rejected. */
const MAX_DIGITS = 65_536

/** Returns the next sampled depth: 1, 2, 3, 4, 6, 8, 12, 16, 24, … */
export function nextDepth(depth: number): number {
  if (depth < 1) return 1
  const power = 2 ** (31 - Math.clz32(depth))
  const between = power + (power >>> 1)
  return between > depth ? between : power * 2
}

/**
 * Packs low lanes of block hashes: number of bits, then gaps of two digits each unless they are wide. 2.2 to 2.6 bytes
 * per entry: 18 KB for 8192.
 */
export function packFilter(sample: Uint32Array): string {
  const bits = Math.min(32, SPARE_BITS + Math.ceil(Math.log2(sample.length || 1)))
  const keys = sample.map((lane) => lane >>> (32 - bits)).sort()
  let text = DIGITS[bits]!
  let last = -1
  for (const key of keys) {
    if (key === last) continue
    let gap = key - last - 1
    for (; gap >= SKIP; gap -= SKIP) text += DIGITS[63]!
    text += DIGITS[gap >>> 6]! + DIGITS[gap & 63]!
    last = key
  }
  return text
}

/** Parses a text; null: invalid. */
export function openFilter(text: string): PrefixFilter | null {
  const bits = text.length > MAX_DIGITS ? -1 : digitAt(text, 0)
  if (bits < SPARE_BITS || bits > 32) return null
  const keys = new Uint32Array(text.length >>> 1)
  let size = 0
  let key = 0
  for (let at = 1; at < text.length;) {
    let digit = digitAt(text, at++)
    for (; digit === 63; digit = digitAt(text, at++)) key += SKIP
    const low = digitAt(text, at++)
    key += digit * 64 + low
    if (digit < 0 || low < 0 || key >= 2 ** bits) return null
    keys[size++] = key++
  }
  return new PrefixFilter(keys.subarray(0, size), 32 - bits)
}

/** Index of the key; -1: absent. */
const digitAt = (text: string, at: number): number => DIGITS.indexOf(text[at] ?? ' ')

export class PrefixFilter {
  readonly #keys: Uint32Array
  readonly #shift: number

  /** @param keys in ascending order */
  constructor(keys: Uint32Array, shift: number) {
    this.#keys = keys
    this.#shift = shift
  }

  get size(): number {
    return this.#keys.length
  }

  /**
   * Returns the deepest sampled depth of a prompt that the filter contains. All sampled depths before it must be
   * contained, too.
   * @param blocks two lanes each, as in an admission
   */
  blocksOf(blocks: Uint32Array): number {
    let deepest = 0
    for (
      let depth = 1;
      depth * 2 <= blocks.length && this.#has(blocks[depth * 2 - 2]! >>> this.#shift);
      depth = nextDepth(depth)
    )
      deepest = depth
    return deepest
  }

  #has(key: number): boolean {
    const keys = this.#keys
    let low = 0
    let high = keys.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (keys[middle]! < key) low = middle + 1
      else high = middle
    }
    return keys[low] === key
  }
}
