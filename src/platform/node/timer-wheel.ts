/**
 * Timers that nearly never come due: a hashed wheel (Varghese and Lauck, 1987, scheme 6). Adding, moving and
 * removing one costs a few writes and no memory. Times are those of one monotonic clock, in milliseconds.
 */

/** Width of a slot, ms: the interval at which the wheel is turned. */
export const SLOT_MS = 20

/** Entries that are farther away than one turn of the wheel are seen on the way. */
const SLOTS = 512

/** What waits in a slot; also the head of a slot's list. */
export class WheelEntry {
  /** Slot, counted from time 0; -1: it does not wait. */
  slot = -1
  next: WheelEntry = this
  previous: WheelEntry = this

  /** Called once, when its slot begins or after that. */
  reached(_now: number): void {
    // The head of a list is never called.
  }
}

export class TimerWheel {
  readonly #heads = Array.from({ length: SLOTS }, () => new WheelEntry())
  /** Slots up to this one have begun. */
  #begun: number

  constructor(now: number) {
    this.#begun = Math.floor(now / SLOT_MS)
  }

  /**
   * Adds an entry that waits in no slot. Returns the time at which its slot begins: at most `at`, and later than now if
   * `at` is at least two slots away.
   */
  add(entry: WheelEntry, at: number): number {
    const slot = Math.min(Math.max(this.#begun + 1, Math.floor(at / SLOT_MS)), this.#begun + SLOTS - 1)
    const head = this.#heads[slot % SLOTS]!
    entry.slot = slot
    entry.previous = head.previous
    entry.next = head
    head.previous.next = entry
    head.previous = entry
    return slot * SLOT_MS
  }

  remove(entry: WheelEntry): void {
    entry.previous.next = entry.next
    entry.next.previous = entry.previous
    entry.next = entry.previous = entry
    entry.slot = -1
  }

  /** Reports the entries whose slots have begun. They may add and remove any entry. */
  turn(now: number): void {
    const to = Math.floor(now / SLOT_MS)
    // After a pause of more than one turn, each slot is seen once.
    let slot = Math.max(this.#begun, to - SLOTS)
    while (slot < to) {
      this.#begun = ++slot
      const head = this.#heads[slot % SLOTS]!
      // New entries are in later slots.
      for (let entry = head.next; entry !== head; entry = head.next) {
        this.remove(entry)
        entry.reached(now)
      }
    }
  }
}
