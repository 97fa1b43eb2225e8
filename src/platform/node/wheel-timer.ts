/** Timers of this runtime, on those of Node. */
import type { Timer, Timers } from '../../ports/timers.ts'
import { SLOT_MS, TimerWheel, WheelEntry } from './timer-wheel.ts'

/** A timer that is farther away waits in the wheel, and gets a timer of Node when its slot begins. */
const WHEEL_MS = 4 * SLOT_MS

let waiting = 0
/** Turns the wheel, and counts stalls. null: no timer waits. */
let clock: NodeJS.Timeout | null = null
let checkedAt = 0
let stalled = 0
const wheel = new TimerWheel(performance.now())

/**
 * Milliseconds for which this process did not run its event loop while timers waited: it was starved, stopped or
 * busy. It has not read what arrived meanwhile, so limits of others are extended by this time (`Patience`).
 */
export const stalledMs = (): number => stalled

/**
 * A timer that is set, moved and cancelled often and rarely fires. It fires after sockets have been read: bytes
 * that arrived while this process was late can still cancel or move it. It does not keep the process alive.
 */
export class WheelTimer extends WheelEntry {
  readonly #onDue: () => void
  #isWaiting = false
  /** `performance.now()` at which it is due. */
  #dueAt = 0
  /** null: it waits in the wheel, or for sockets that are read first. */
  #timer: NodeJS.Timeout | null = null
  /** The timer has fired, and sockets are read first. */
  #immediate: NodeJS.Immediate | null = null
  /** `performance.now()` at which it is looked at again. */
  #seenAt = 0
  /** `stalledMs()` when it was last set. */
  #stalledBefore = 0

  constructor(onDue: () => void) {
    super()
    this.#onDue = onDue
  }

  /**
   * Fires once, no earlier than `delayMs` from now. A timer that waits is moved; moving it later leaves its timer
   * alone.
   */
  set(delayMs: number): void {
    const now = performance.now()
    this.#dueAt = now + delayMs
    this.#stalledBefore = stalled
    if (!this.#isWaiting) {
      this.#isWaiting = true
      if (waiting++ === 0) startClock(now)
    } else if (this.#seenAt <= this.#dueAt) return
    else this.#disarm()
    this.#arm(now)
  }

  /** Time for which this process did not run since the timer was set. */
  get stalledMs(): number {
    return stalled - this.#stalledBefore
  }

  cancel(): void {
    if (!this.#isWaiting) return
    this.#isWaiting = false
    this.#disarm()
    waiting--
  }

  override reached(now: number): void {
    this.#arm(now)
  }

  #arm(now: number): void {
    if (this.#dueAt - now > WHEEL_MS) {
      this.#seenAt = wheel.add(this, this.#dueAt)
      return
    }
    this.#seenAt = this.#dueAt
    const delayMs = Math.max(0, Math.ceil(this.#dueAt - now))
    this.#timer = setTimeout(() => this.#fire(), delayMs).unref()
  }

  #disarm(): void {
    if (this.slot >= 0) wheel.remove(this)
    if (this.#timer !== null) clearTimeout(this.#timer)
    if (this.#immediate !== null) clearImmediate(this.#immediate)
    this.#timer = this.#immediate = null
  }

  #fire(): void {
    this.#timer = null
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
    this.#isWaiting = false
    waiting--
    this.#onDue()
  }
}

function startClock(now: number): void {
  if (clock !== null) return
  checkedAt = now
  clock = setInterval(tick, SLOT_MS).unref()
}

function tick(): void {
  const now = performance.now()
  countStall(now)
  wheel.turn(now)
  if (waiting > 0 || clock === null) return
  clearInterval(clock)
  clock = null
}

function countStall(now: number): void {
  const lateMs = now - checkedAt - SLOT_MS
  checkedAt = now
  if (lateMs > SLOT_MS) stalled += lateMs
}

export const nodeTimers: Timers = {
  set(delayMs: number, onDue: () => void): Timer {
    const timer = new WheelTimer(onDue)
    timer.set(delayMs)
    return timer
  },
}
