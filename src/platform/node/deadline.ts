/** Time limits on Node's timers. */
import type { Timer, Timers } from '../../ports/timers.ts'

/** Longest delay of a Node timer. Node fires a longer one at once. */
const MAX_DELAY_MS = 2 ** 31 - 1
/** How often the event loop is checked for stalls while a deadline waits. */
const STALL_CHECK_MS = 20

let waiting = 0
let stallCheck: NodeJS.Timeout | null = null
let checkedAt = 0
let stalled = 0

/**
 * Milliseconds for which this process did not run its event loop while deadlines waited: it was starved, stopped or
 * busy. It has not read what arrived meanwhile, so callers extend the limits of others by this time.
 */
export const stalledMs = (): number => stalled

/**
 * A time limit that is set, moved and cancelled often and rarely fires. It fires after sockets have been read: bytes
 * that arrived while this process was late can still cancel or move it. It does not keep the process alive.
 */
export class Deadline {
  readonly #onDue: () => void
  /** `performance.now()` at which it is due. */
  #dueAt = 0
  /** null: it does not wait. */
  #timer: NodeJS.Timeout | null = null
  /** The timer has fired, and sockets are read first. */
  #immediate: NodeJS.Immediate | null = null
  #firesAt = 0

  constructor(onDue: () => void) {
    this.#onDue = onDue
  }

  /**
   * Fires once, no earlier than `delayMs` from now. A deadline that waits is moved; moving it later leaves its timer
   * alone.
   */
  set(delayMs: number): void {
    const now = performance.now()
    this.#dueAt = now + delayMs
    if (this.#timer === null) {
      if (waiting++ === 0) startStallCheck(now)
    } else if (this.#firesAt <= this.#dueAt) return
    else clearTimeout(this.#timer)
    this.#arm(now)
  }

  cancel(): void {
    if (this.#timer === null) return
    clearTimeout(this.#timer)
    if (this.#immediate !== null) clearImmediate(this.#immediate)
    this.#timer = this.#immediate = null
    waiting--
  }

  #arm(now: number): void {
    this.#firesAt = this.#dueAt
    const delayMs = Math.min(Math.max(0, Math.ceil(this.#dueAt - now)), MAX_DELAY_MS)
    this.#timer = setTimeout(() => this.#fire(), delayMs).unref()
  }

  #fire(): void {
    const now = performance.now()
    countStall(now)
    // It was moved later, or Node's clock, which counts whole milliseconds, is ahead.
    if (now < this.#dueAt) this.#arm(now)
    else this.#immediate = setImmediate(() => this.#expire()).unref()
  }

  #expire(): void {
    this.#immediate = null
    const now = performance.now()
    if (now < this.#dueAt) return this.#arm(now)
    this.#timer = null
    waiting--
    this.#onDue()
  }
}

function startStallCheck(now: number): void {
  if (stallCheck !== null) return
  checkedAt = now
  stallCheck = setInterval(checkStall, STALL_CHECK_MS).unref()
}

function checkStall(): void {
  countStall(performance.now())
  if (waiting > 0 || stallCheck === null) return
  clearInterval(stallCheck)
  stallCheck = null
}

function countStall(now: number): void {
  const lateMs = now - checkedAt - STALL_CHECK_MS
  checkedAt = now
  if (lateMs > STALL_CHECK_MS) stalled += lateMs
}

export const nodeTimers: Timers = {
  set(delayMs: number, onDue: () => void): Timer {
    const deadline = new Deadline(onDue)
    deadline.set(delayMs)
    return deadline
  },
}
