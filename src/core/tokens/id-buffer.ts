/** A growing list of token ids in one typed array, reused from prompt to prompt. */
export class IdBuffer {
  #ids: Uint32Array
  length = 0

  /** @param room ids before the array grows for the first time */
  constructor(room = 16 * 1024) {
    this.#ids = new Uint32Array(room)
  }

  /** `length` ids, then unused space; valid until the next write. */
  get ids(): Uint32Array {
    return this.#ids
  }

  clear(): void {
    this.length = 0
  }

  /** Reserves space for `extra` more ids. Returns the array to write to, from `length` on. */
  reserve(extra: number): Uint32Array {
    const needed = this.length + extra
    if (needed > this.#ids.length) {
      const larger = new Uint32Array(Math.max(needed, this.#ids.length * 2))
      larger.set(this.#ids.subarray(0, this.length))
      this.#ids = larger
    }
    return this.#ids
  }

  push(id: number): void {
    this.reserve(1)[this.length++] = id
  }

  append(ids: ArrayLike<number>): void {
    this.reserve(ids.length).set(ids, this.length)
    this.length += ids.length
  }
}
