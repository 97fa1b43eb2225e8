import type { Timer, Timers } from '../../ports.ts'

/**
 * Deadlines of many things that nearly never come due: a hashed wheel (Varghese and Lauck, 1987, scheme 6). Setting,
 * moving and cancelling one costs a few writes; nothing is allocated. Time is an argument, in whole or broken milliseconds.
 */

/** What waits. One object a waiter, used again and again. */
export class Deadline {
  /** Due no earlier than this. Moved later, it is written and nothing else. */
  at = 0
  /** Slot it will be looked at in, counted from time 0; -1: it does not wait. */
  slot = -1
  next: Deadline = this
  previous: Deadline = this
  readonly ring: (now: number) => void

  constructor(ring: (now: number) => void) {
    this.ring = ring
  }
}

export interface WheelOptions {
  /** How late a deadline may ring, at most, when the wheel is turned that often. */
  readonly slotMs: number
  readonly slots: number
}

export class TimerWheel {
  readonly #slotMs: number
  readonly #slots: readonly Deadline[]
  /** All slots up to this one have been looked at. */
  #passed: number
  #size = 0

  constructor({ slotMs, slots }: WheelOptions, now: number) {
    this.#slotMs = slotMs
    this.#slots = Array.from({ length: slots }, () => new Deadline(() => undefined))
    this.#passed = Math.floor(now / slotMs)
  }

  /** Deadlines that wait. */
  get size(): number {
    return this.#size
  }

  /** Rings at the first turn at or after `at`, and not before. One that waits already is moved. */
  set(deadline: Deadline, at: number): void {
    deadline.at = at
    const slot = Math.max(this.#passed + 1, Math.ceil(at / this.#slotMs))
    // It is looked at before that anyway, and sorted in anew then.
    if (deadline.slot >= 0 && deadline.slot <= slot) return
    if (deadline.slot >= 0) this.#unlink(deadline)
    // Farther than once around: looked at on the way.
    this.#link(deadline, Math.min(slot, this.#passed + this.#slots.length - 1))
  }

  /** Harmless for one that does not wait. */
  cancel(deadline: Deadline): void {
    if (deadline.slot >= 0) this.#unlink(deadline)
  }

  /** Rings what is due by `now`, in no order. A ring may set and cancel what it likes, itself too. */
  turn(now: number): void {
    const to = Math.floor(now / this.#slotMs)
    // After a pause of more than once around every slot is looked at once.
    let slot = Math.max(this.#passed, to - this.#slots.length)
    while (slot < to) {
      slot++
      this.#passed = slot
      const head = this.#slots[slot % this.#slots.length]!
      // Nothing is ever put into the slot that is being emptied.
      for (let deadline = head.next; deadline !== head; deadline = head.next) {
        this.#unlink(deadline)
        if (deadline.at <= now) deadline.ring(now)
        else this.set(deadline, deadline.at)
      }
    }
  }

  #link(deadline: Deadline, slot: number): void {
    const head = this.#slots[slot % this.#slots.length]!
    deadline.slot = slot
    deadline.previous = head.previous
    deadline.next = head
    head.previous.next = deadline
    head.previous = deadline
    this.#size++
  }

  #unlink(deadline: Deadline): void {
    deadline.previous.next = deadline.next
    deadline.next.previous = deadline.previous
    deadline.next = deadline.previous = deadline
    deadline.slot = -1
    this.#size--
  }
}

/* The process's timer wheel and the one timer that turns it. */

/** How late a time limit may be noticed. */
const SLOT_MS = 20
const SLOTS = 512

let timer: NodeJS.Timeout | null = null
/** When the wheel was last turned. */
let turnedAt = 0
let stalled = 0

/** Milliseconds of a clock that nobody sets. */
const now = (): number => performance.now()

const wheel = new TimerWheel({ slotMs: SLOT_MS, slots: SLOTS }, now())

function turn(): void {
  const at = now()
  const lateMs = at - turnedAt - SLOT_MS
  turnedAt = at
  if (lateMs > SLOT_MS) stalled += lateMs
  wheel.turn(at)
  if (wheel.size > 0 || timer === null) return
  clearInterval(timer)
  timer = null
}

/** Rings once, at most a slot after `delayMs`. */
export function setDeadline(deadline: Deadline, delayMs: number): void {
  wheel.set(deadline, now() + delayMs)
  if (timer !== null) return
  turnedAt = now()
  // What waits does not keep a process alive.
  timer = setInterval(turn, SLOT_MS).unref()
}

/**
 * Milliseconds for which this process did not run its event loop while deadlines waited: it was starved, stopped or busy.
 * What happened meanwhile has not been read: a time limit that others are to keep does not run in that time.
 */
export const stalledMs = (): number => stalled

export function cancelDeadline(deadline: Deadline): void {
  wheel.cancel(deadline)
}

export const wheelAlarms: Timers = {
  set(delayMs: number, ring: () => void): Timer {
    const deadline = new Deadline(ring)
    setDeadline(deadline, delayMs)
    return { cancel: () => wheel.cancel(deadline) }
  },
}
