type EventHandler = (at: number) => void

interface Entry {
  readonly at: number
  readonly order: number
  readonly happen: EventHandler
}

/** Event queue: a binary heap. Events at the same time run in insertion order. */
export class EventQueue {
  readonly #heap: Entry[] = []
  #added = 0

  get size(): number {
    return this.#heap.length
  }

  nextAt(): number {
    return this.#heap[0]?.at ?? Infinity
  }

  add(at: number, happen: EventHandler): void {
    const heap = this.#heap
    const entry = { at, order: this.#added, happen }
    this.#added += 1
    let place = heap.length
    while (place > 0) {
      const above = (place - 1) >> 1
      if (!isBefore(entry, heap[above]!)) break
      heap[place] = heap[above]!
      place = above
    }
    heap[place] = entry
  }

  /** Runs all events due by `now`, including those added meanwhile. */
  run(now: number): void {
    while (this.#heap.length > 0 && this.nextAt() <= now) this.take()!()
  }

  /** Removes the next event. Calling it runs it at its time. */
  take(): (() => void) | undefined {
    const heap = this.#heap
    const first = heap[0]
    if (first === undefined) return undefined
    const last = heap.pop()!
    if (heap.length > 0) this.#sink(last)
    return () => first.happen(first.at)
  }

  #sink(entry: Entry): void {
    const heap = this.#heap
    let place = 0
    for (;;) {
      let below = place * 2 + 1
      if (below >= heap.length) break
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below += 1
      if (!isBefore(heap[below]!, entry)) break
      heap[place] = heap[below]!
      place = below
    }
    heap[place] = entry
  }
}

function isBefore(one: Entry, other: Entry): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order)
}
