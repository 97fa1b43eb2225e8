/** The process's timer wheel and the one timer that turns it. */
import type { Alarm, Alarms } from '../../ports.ts'
import { Deadline, TimerWheel } from './timer-wheel.ts'

/** How late a time limit may be noticed. */
const SLOT_MS = 20
const SLOTS = 512

let timer: NodeJS.Timeout | null = null

/** Milliseconds of a clock that nobody sets. */
const now = (): number => performance.now()

const wheel = new TimerWheel({ slotMs: SLOT_MS, slots: SLOTS }, now())

function turn(): void {
  wheel.turn(now())
  if (wheel.size > 0 || timer === null) return
  clearInterval(timer)
  timer = null
}

/** Rings once, at most a slot after `delayMs`. */
export function setDeadline(deadline: Deadline, delayMs: number): void {
  wheel.set(deadline, now() + delayMs)
  // What waits does not keep a process alive.
  timer ??= setInterval(turn, SLOT_MS).unref()
}

export function cancelDeadline(deadline: Deadline): void {
  wheel.cancel(deadline)
}

export const wheelAlarms: Alarms = {
  set(delayMs: number, ring: () => void): Alarm {
    const deadline = new Deadline(ring)
    setDeadline(deadline, delayMs)
    return { cancel: () => wheel.cancel(deadline) }
  },
}
