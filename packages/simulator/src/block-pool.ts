import type { CacheJournal } from './cache-journal.ts'

/**
 * The KV blocks of one engine: reference counts, a prefix cache over chained block keys, and the order in which free
 * blocks are reused (vLLM V1's BlockPool). An unreferenced block keeps its content until it is reused, oldest first.
 * Two blocks may have the same content if two requests computed it concurrently.
 */
export class BlockPool {
  readonly size: number
  readonly #refs: Int32Array
  readonly #low: Uint32Array
  readonly #high: Uint32Array
  readonly #named: Uint8Array
  /** Doubly linked list of free blocks. The entry at `size` is the list's sentinel. */
  readonly #previous: Int32Array
  readonly #next: Int32Array
  /** Open-addressing table from key to block + 1; 0 is empty. */
  readonly #table: Int32Array
  readonly #mask: number
  readonly #journal: CacheJournal | null
  #freeCount = 0
  #namedCount = 0
  #evictions = 0

  /** @param journal records lost contents; null: not recorded */
  constructor(size: number, journal: CacheJournal | null = null) {
    if (!Number.isInteger(size) || size < 1) throw new RangeError(`a pool needs at least one block, not ${size}`)
    this.size = size
    this.#journal = journal
    this.#refs = new Int32Array(size)
    this.#low = new Uint32Array(size)
    this.#high = new Uint32Array(size)
    this.#named = new Uint8Array(size)
    this.#previous = new Int32Array(size + 1).fill(size)
    this.#next = new Int32Array(size + 1).fill(size)
    let slots = 8
    while (slots < size * 2) slots *= 2
    this.#table = new Int32Array(slots)
    this.#mask = slots - 1
    for (let block = 0; block < size; block += 1) this.#append(block)
  }

  /** Number of blocks that can be allocated now. Their content can still be found. */
  get freeCount(): number {
    return this.#freeCount
  }

  /** Number of blocks whose content can be found by key, referenced or free. */
  get namedCount(): number {
    return this.#namedCount
  }

  /** Number of contents evicted since the start. */
  get evictions(): number {
    return this.#evictions
  }

  references(block: number): number {
    return this.#refs[block] ?? 0
  }

  /** Returns the block with this content, or -1. */
  find(low: number, high: number): number {
    let at = this.#slot(low, high)
    for (;;) {
      const block = this.#table[at]! - 1
      if (block < 0) return -1
      if (this.#low[block] === low && this.#high[block] === high) return block
      at = (at + 1) & this.#mask
    }
  }

  /** Allocates the block that was free for the longest time and discards its content. Throws if none is free. */
  take(): number {
    const block = this.#next[this.size]!
    if (block === this.size) throw new RangeError('no free block: check freeCount first')
    this.#unlink(block)
    if (this.#named[block] === 1) {
      this.#journal?.add({ kind: 'removed', low: this.#low[block]!, high: this.#high[block]! })
      this.#forget(block)
      this.#evictions += 1
    }
    this.#refs[block] = 1
    return block
  }

  /** Increments the reference count. */
  share(block: number): void {
    if (this.#refs[block] === 0) this.#unlink(block)
    this.#refs[block]! += 1
  }

  /** Decrements the reference count. At zero the block moves to the end of the free list and keeps its content. */
  release(block: number): void {
    const left = this.#refs[block]! - 1
    if (left < 0) throw new RangeError(`block ${block} was released more often than referenced`)
    this.#refs[block] = left
    if (left === 0) this.#append(block)
  }

  /** Registers the content of a referenced block under its key. */
  name(block: number, low: number, high: number): void {
    if (this.#named[block] === 1) return
    this.#low[block] = low
    this.#high[block] = high
    this.#named[block] = 1
    this.#namedCount += 1
    let at = this.#slot(low, high)
    while (this.#table[at] !== 0) at = (at + 1) & this.#mask
    this.#table[at] = block + 1
  }

  /** Discards all content, referenced or not. */
  clear(): void {
    this.#table.fill(0)
    this.#named.fill(0)
    this.#namedCount = 0
    this.#journal?.add({ kind: 'cleared' })
  }

  #slot(low: number, high: number): number {
    let mixed = Math.imul(low ^ Math.imul(high, 0x9e3779b1), 0x85ebca6b)
    mixed ^= mixed >>> 15
    return (Math.imul(mixed, 0xc2b2ae35) >>> 4) & this.#mask
  }

  /** Deletes by shifting back, so that a search may stop at the first empty place. */
  #forget(block: number): void {
    let hole = this.#slot(this.#low[block]!, this.#high[block]!)
    while (this.#table[hole] !== block + 1) hole = (hole + 1) & this.#mask
    for (let at = (hole + 1) & this.#mask; this.#table[at] !== 0; at = (at + 1) & this.#mask) {
      const other = this.#table[at]! - 1
      const slot = this.#slot(this.#low[other]!, this.#high[other]!)
      if (((at - slot) & this.#mask) < ((at - hole) & this.#mask)) continue
      this.#table[hole] = other + 1
      hole = at
    }
    this.#table[hole] = 0
    this.#named[block] = 0
    this.#namedCount -= 1
  }

  #append(block: number): void {
    const last = this.#previous[this.size]!
    this.#next[last] = block
    this.#previous[block] = last
    this.#next[block] = this.size
    this.#previous[this.size] = block
    this.#freeCount += 1
  }

  #unlink(block: number): void {
    const before = this.#previous[block]!
    const after = this.#next[block]!
    this.#next[before] = after
    this.#previous[after] = before
    this.#freeCount -= 1
  }
}
