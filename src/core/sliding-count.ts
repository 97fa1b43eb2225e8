/** Exact count of events in the last `windowMs`, in a ring buffer that grows with the busiest window. */
export class SlidingCount {
  readonly #windowMs: number
  /** Its length is a power of two, so that a mask finds a place without a division. */
  #times = new Float64Array(16)
  #head = 0
  #size = 0

  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  /** Counts an event. An earlier `now` is treated as the latest one. */
  add(now: number): void {
    this.count(now)
    if (this.#size === this.#times.length) this.#grow()
    const last = this.#size === 0 ? now : this.#at(this.#size - 1)
    this.#times[this.#place(this.#size)] = Math.max(now, last)
    this.#size += 1
  }

  count(now: number): number {
    while (this.#size > 0 && this.#times[this.#head]! <= now - this.#windowMs) {
      this.#head = this.#place(1)
      this.#size -= 1
    }
    return this.#size
  }

  #at(index: number): number {
    return this.#times[this.#place(index)]!
  }

  #place(index: number): number {
    return (this.#head + index) & (this.#times.length - 1)
  }

  #grow(): void {
    const grown = new Float64Array(this.#times.length * 2)
    for (let index = 0; index < this.#size; index++) grown[index] = this.#at(index)
    this.#times = grown
    this.#head = 0
  }
}
