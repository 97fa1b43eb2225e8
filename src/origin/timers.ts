import type { Alarms } from '../ports.ts'

/** Alarms where the platform has no better ones: a timer of the runtime each. */
export const timers: Alarms = {
  set(delayMs, ring) {
    const timer = setTimeout(ring, delayMs)
    return { cancel: () => clearTimeout(timer) }
  },
}
