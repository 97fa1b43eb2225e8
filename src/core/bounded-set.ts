/** Set of the latest keys: at least `limit` of them, and at most twice as many. */
export class BoundedSet {
  readonly #limit: number
  #latest = new Set<string>()
  /** Those before. They leave together, because a Set from which keys are deleted all the time is slow. */
  #earlier = new Set<string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  add(key: string): void {
    if (this.#latest.size === this.#limit) {
      this.#earlier = this.#latest
      this.#latest = new Set()
    }
    this.#latest.add(key)
  }

  delete(key: string): void {
    this.#latest.delete(key)
    this.#earlier.delete(key)
  }

  has(key: string): boolean {
    return this.#latest.has(key) || this.#earlier.has(key)
  }
}
