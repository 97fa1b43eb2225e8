/** Choices of a stream: nearly always one, number 0. A `Set` costs as much memory as the rest of a reader. */
export class ChoiceSet {
  #size = 0
  /** Bits of the choices 0 to 30. */
  #low = 0
  #others: Set<number> | null = null

  get size(): number {
    return this.#size + (this.#others?.size ?? 0)
  }

  add(choice: number): void {
    if (choice < 0 || choice > 30 || !Number.isInteger(choice)) {
      this.#others ??= new Set()
      this.#others.add(choice)
    } else if ((this.#low & (1 << choice)) === 0) {
      this.#low |= 1 << choice
      this.#size++
    }
  }
}
