/** How many places a row has at least. */
const LEAST_PLACES = 16
/** A row that has become empty gives its memory back where it had more. */
const KEPT_PLACES = 1024

/**
 * Whole numbers in a row that grows at its end, and their sum up to any of them, in steps that grow with the logarithm
 * of the row's length (a Fenwick tree). As long as all of it is below 2^53, nothing drifts.
 */
export class RunningSums {
  /** Of `places` and one more: the first is not used. */
  #tree = new Float64Array(0)
  #filled = 0

  /** No room is left at its end: call `begin` and append what is still wanted. */
  get isFull(): boolean {
    return this.#filled + 1 >= this.#tree.length
  }

  /** Begins anew, with room for twice as many as are to be appended at once. */
  begin(count: number): void {
    let places = LEAST_PLACES
    while (places < 2 * count) places *= 2
    this.#tree = new Float64Array(places + 1)
    this.#filled = 0
  }

  /** All of them are zero again, and their places free. */
  emptied(): void {
    this.#filled = 0
    if (this.#tree.length > KEPT_PLACES + 1) this.#tree = new Float64Array(0)
  }

  /** Returns its place. */
  append(value: number): number {
    this.#filled += 1
    this.change(this.#filled, value)
    return this.#filled
  }

  change(place: number, by: number): void {
    const tree = this.#tree
    for (let at = place; at < tree.length; at += at & -at) tree[at]! += by
  }

  /** With that at `place`. */
  upTo(place: number): number {
    const tree = this.#tree
    let sum = 0
    for (let at = place; at > 0; at -= at & -at) sum += tree[at]!
    return sum
  }
}
