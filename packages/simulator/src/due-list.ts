import type { Sequence } from './sequence.ts'

/** Sequences with an event at their `dueAt`. The list is short, so it is unsorted. */
export class DueList {
  #items: Sequence[] = []

  get length(): number {
    return this.#items.length
  }

  /** Earliest `dueAt`; Infinity when empty. */
  nextAt(): number {
    let at = Infinity
    for (const sequence of this.#items) if (sequence.dueAt < at) at = sequence.dueAt
    return at
  }

  add(sequence: Sequence): void {
    this.#items.push(sequence)
  }

  remove(sequence: Sequence): void {
    this.#items = this.#items.filter((other) => other !== sequence)
  }

  /** Removes and returns all due sequences, earliest first. */
  take(now: number): Sequence[] {
    if (this.nextAt() > now) return []
    const due = this.#items.filter((sequence) => sequence.dueAt <= now)
    this.#items = this.#items.filter((sequence) => sequence.dueAt > now)
    return due.sort((a, b) => a.dueAt - b.dueAt)
  }

  [Symbol.iterator](): Iterator<Sequence> {
    return this.#items[Symbol.iterator]()
  }
}
