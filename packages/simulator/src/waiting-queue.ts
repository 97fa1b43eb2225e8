import type { Sequence } from './sequence.ts'

/** First-come-first-served queue. Preempted sequences return to the front. Aborted ones are skipped. */
export class WaitingQueue {
  #items: Sequence[] = []
  #head = 0
  #live = 0

  /** Number of waiting sequences without aborted ones. */
  get length(): number {
    return this.#live
  }

  push(sequence: Sequence): void {
    this.#items.push(sequence)
    this.#live += 1
  }

  pushFront(sequence: Sequence): void {
    if (this.#head > 0) {
      this.#head -= 1
      this.#items[this.#head] = sequence
    } else this.#items.unshift(sequence)
    this.#live += 1
  }

  /** The next sequence. */
  peek(): Sequence | undefined {
    while (this.#head < this.#items.length && this.#items[this.#head]!.ended) this.#drop()
    return this.#items[this.#head]
  }

  /** Removes the sequence that `peek` returned. */
  shift(): void {
    this.#drop()
    this.#live -= 1
  }

  /** Records the abort of a waiting sequence. */
  forgetOne(): void {
    this.#live -= 1
  }

  *[Symbol.iterator](): Generator<Sequence> {
    for (let at = this.#head; at < this.#items.length; at += 1) {
      const sequence = this.#items[at]!
      if (!sequence.ended) yield sequence
    }
  }

  #drop(): void {
    this.#head += 1
    if (this.#head > 64 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
  }
}
