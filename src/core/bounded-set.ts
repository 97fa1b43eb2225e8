/** Set of the last `capacity` keys; adding a key removes the oldest. */
export class BoundedSet {
  readonly #limit: number
  readonly #keys = new Set<string>()
  /** Ring buffer: the first entry of a Set is found slowly after many deletions. */
  readonly #inOrder: string[] = []
  #next = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  add(key: string): void {
    if (this.#keys.has(key)) return
    if (this.#inOrder.length === this.#limit) this.#keys.delete(this.#inOrder[this.#next]!)
    this.#keys.add(key)
    this.#inOrder[this.#next] = key
    this.#next = (this.#next + 1) % this.#limit
  }

  delete(key: string): void {
    this.#keys.delete(key)
  }

  has(key: string): boolean {
    return this.#keys.has(key)
  }
}
