/** Longest run of block hashes that is stored in one piece. */
export const MAX_RUN = 256

const MAX_ORDER = 8

const NONE = -1

/** The smallest order whose 2^order units hold `length` blocks. */
export const orderOf = (length: number): number => 32 - Math.clz32(length - 1)

/**
 * Storage for runs of block hashes: a buddy allocator in one Uint32Array, two lanes per unit, so that runs grow and
 * shrink without fragmentation. Free lists are stored in the free units.
 */
export class BlockArena {
  /**
   * Two words per unit, the low and the high lane of one hash. Replaced when the arena grows: read it again after each
   * allocation.
   */
  words: Uint32Array
  /** order + 1 at the first unit of a free piece, else 0. */
  #free: Uint8Array
  readonly #heads = new Int32Array(MAX_ORDER + 1).fill(NONE)
  #usedUnits = 0

  constructor(units: number = MAX_RUN) {
    const size = Math.max(1, Math.ceil(units / MAX_RUN)) * MAX_RUN
    this.words = new Uint32Array(size * 2)
    this.#free = new Uint8Array(size)
    this.#addRange(0, size)
  }

  /** Allocated units, counted as whole pieces. */
  get usedUnits(): number {
    return this.#usedUnits
  }

  get bytes(): number {
    return this.words.byteLength + this.#free.byteLength
  }

  /** First unit of a piece of 2^order units. */
  alloc(order: number): number {
    let from = order
    while (from <= MAX_ORDER && this.#heads[from] === NONE) from++
    if (from > MAX_ORDER) {
      this.#grow()
      from = MAX_ORDER
    }
    const unit = this.#heads[from]!
    this.#unlink(unit, from)
    while (from > order) {
      from--
      this.#link(unit + (1 << from), from)
    }
    this.#usedUnits += 1 << order
    return unit
  }

  free(unit: number, order: number): void {
    this.#usedUnits -= 1 << order
    let at = unit
    let size = order
    while (size < MAX_ORDER) {
      const buddy = at ^ (1 << size)
      if (this.#free[buddy] !== size + 1) break
      this.#unlink(buddy, size)
      at = Math.min(at, buddy)
      size++
    }
    this.#link(at, size)
  }

  /** Frees the upper part of a piece that shrank. */
  trim(unit: number, from: number, to: number): void {
    for (let order = from - 1; order >= to; order--) this.free(unit + (1 << order), order)
  }

  #grow(): void {
    const before = this.#free.length
    const after = before + Math.max(MAX_RUN, Math.ceil(before / 2 / MAX_RUN) * MAX_RUN)
    const words = new Uint32Array(after * 2)
    words.set(this.words)
    this.words = words
    const free = new Uint8Array(after)
    free.set(this.#free)
    this.#free = free
    this.#addRange(before, after)
  }

  #addRange(from: number, to: number): void {
    for (let unit = to - MAX_RUN; unit >= from; unit -= MAX_RUN) this.#link(unit, MAX_ORDER)
  }

  // In a free piece: word 0 is the next free unit + 1, word 1 the previous + 1.
  #link(unit: number, order: number): void {
    const head = this.#heads[order]!
    this.words[unit * 2] = head + 1
    this.words[unit * 2 + 1] = 0
    if (head !== NONE) this.words[head * 2 + 1] = unit + 1
    this.#heads[order] = unit
    this.#free[unit] = order + 1
  }

  #unlink(unit: number, order: number): void {
    const next = this.words[unit * 2]! - 1
    const previous = this.words[unit * 2 + 1]! - 1
    if (next !== NONE) this.words[next * 2 + 1] = previous + 1
    if (previous === NONE) this.#heads[order] = next
    else this.words[previous * 2] = next + 1
    this.#free[unit] = 0
  }
}
