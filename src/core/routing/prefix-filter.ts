/**
 * Which prompts a region has the beginnings of, as a text small enough to be told often: hashes of their blocks at
 * some depths, cut short. Hashes are chained, so one block's stands for all before it, and no other need be told.
 */

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
/** The last digit in first place: so many hashes are skipped, and more digits follow. */
const SKIP = 63 * 64
/** Beyond the bits that number the entries: of 2^11 prompts that are not there, at most one is taken for one that is. */
const SPARE_BITS = 11
/** Of some 30,000 entries: a text from elsewhere that is longer is not read. */
const MOST_DIGITS = 65_536

/** The next depth that is told: 1, 2, 3, 4, 6, 8, 12, 16, 24, … without an end. */
export function nextDepth(depth: number): number {
  if (depth < 1) return 1
  const power = 2 ** (31 - Math.clz32(depth))
  const between = power + (power >>> 1)
  return between > depth ? between : power * 2
}

/**
 * Low lanes of block hashes as a text: how many of their first bits count, then the gaps between them, two digits each
 * but where they are wide. 2.2 to 2.6 bytes an entry: 18 KB for 8192.
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

/** null: it is no such text. */
export function openFilter(text: string): PrefixFilter | null {
  const bits = text.length > MOST_DIGITS ? -1 : digitAt(text, 0)
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

/** -1: there is none. */
const digitAt = (text: string, at: number): number => DIGITS.indexOf(text[at] ?? ' ')

export class PrefixFilter {
  readonly #keys: Uint32Array
  readonly #shift: number

  /** @param keys ascending */
  constructor(keys: Uint32Array, shift: number) {
    this.#keys = keys
    this.#shift = shift
  }

  get size(): number {
    return this.#keys.length
  }

  /**
   * The deepest told depth of a prompt: all told ones before it are there, too, or its block is there by accident.
   * @param blocks two lanes each, as in an admission
   */
  blocksOf(blocks: Uint32Array): number {
    let found = 0
    for (
      let depth = 1;
      depth * 2 <= blocks.length && this.#has(blocks[depth * 2 - 2]! >>> this.#shift);
      depth = nextDepth(depth)
    )
      found = depth
    return found
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
