/** The last keys that were put in; older ones are forgotten. */
export class RecentKeys {
  readonly #limit: number
  readonly #keys = new Set<string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  add(key: string): void {
    this.#keys.add(key)
    if (this.#keys.size > this.#limit) this.#keys.delete(this.#keys.values().next().value!)
  }

  has(key: string): boolean {
    return this.#keys.has(key)
  }
}
