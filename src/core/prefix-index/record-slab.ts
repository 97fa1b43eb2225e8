const GROWTH = 1.5

/**
 * Slab of fixed-size integer records in one Int32Array, without objects and garbage. A record's number is stable;
 * `words` is replaced when the table grows, so read it again after `take`.
 */
export class RecordSlab {
  words: Int32Array
  readonly stride: number
  #next = 0
  #firstFree = -1
  #count = 0

  constructor(stride: number, capacity = 64) {
    this.stride = stride
    this.words = new Int32Array(stride * capacity)
  }

  /** Records in use. */
  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return this.words.byteLength
  }

  /** Allocates a record and returns its number. Its fields have old values. */
  alloc(): number {
    this.#count++
    const free = this.#firstFree
    if (free >= 0) {
      this.#firstFree = this.words[free * this.stride]!
      return free
    }
    const at = this.#next++
    if ((at + 1) * this.stride > this.words.length) this.#grow()
    return at
  }

  free(record: number): void {
    this.#count--
    this.words[record * this.stride] = this.#firstFree
    this.#firstFree = record
  }

  #grow(): void {
    const capacity = Math.ceil((this.words.length / this.stride) * GROWTH)
    const words = new Int32Array(capacity * this.stride)
    words.set(this.words)
    this.words = words
  }
}
