import type { Sequence } from './sequence.ts'

/** Sequences that something happens to at their `dueAt`. Few at a time, so a plain list will do. */
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

  /** Removes what is due and returns it, earliest first. */
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
