/** Entry of a `LinkedList`, which sets these fields. */
export interface ListEntry<Entry> {
  previous: Entry | null
  next: Entry | null
  isListed: boolean
}

/**
 * List in the order of addition, whose entries link to each other: what holds an entry removes it without a key and a
 * search. For entries that come and go with every request.
 */
export class LinkedList<Entry extends ListEntry<Entry>> {
  #first: Entry | null = null
  #last: Entry | null = null
  #size = 0

  get size(): number {
    return this.#size
  }

  get first(): Entry | null {
    return this.#first
  }

  /** Adds an entry that is in no list. */
  add(entry: Entry): void {
    entry.isListed = true
    entry.previous = this.#last
    if (this.#last === null) this.#first = entry
    else this.#last.next = entry
    this.#last = entry
    this.#size += 1
  }

  /** Removes an entry of this list. false: it is in none. */
  delete(entry: Entry): boolean {
    const { previous, next, isListed } = entry
    if (!isListed) return false
    entry.isListed = false
    if (previous === null) this.#first = next
    else previous.next = next
    if (next === null) this.#last = previous
    else next.previous = previous
    // What still holds the entry would otherwise keep others alive.
    entry.previous = null
    entry.next = null
    this.#size -= 1
    return true
  }

  /** The entry that was returned last may be deleted. */
  *[Symbol.iterator](): Generator<Entry, void> {
    for (let entry = this.#first, next: Entry | null; entry !== null; entry = next) {
      ;({ next } = entry)
      yield entry
    }
  }
}
