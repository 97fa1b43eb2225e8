/** A clock to measure and wait by, which also tells the time. */

/** How often the machine's clock is looked at: it costs as much again. */
const CHECK_MS = 1_000
/**
 * How much slower than time it runs until a machine's clock that was set back has caught up: what is measured
 * meanwhile is little off.
 */
const SLOWER = 0.01

/** Both in milliseconds. */
export interface Clocks {
  /** Since the epoch; may be set, forward and back. */
  readonly wall: () => number
  /** Since some moment; nobody sets it. */
  readonly steady: () => number
}

/**
 * Milliseconds since the epoch that never go back. Were they to, every circuit, probe and answer kept for a while
 * would stay as it is for as long as the clock was set back by. What the machine's clock is set forward by is followed
 * within a second.
 */
export function steadyClock({ wall, steady }: Clocks): () => number {
  let base = wall()
  let checkedAt = steady()
  let rate = 1
  return () => {
    const at = steady()
    const elapsedMs = at - checkedAt
    if (elapsedMs < CHECK_MS) return Math.floor(base + elapsedMs * rate)
    const told = base + elapsedMs * rate
    const real = wall()
    base = Math.max(told, real)
    rate = 1 - Math.min(SLOWER, (base - real) / CHECK_MS)
    checkedAt = at
    return Math.floor(base)
  }
}

/** This machine's. */
export const steadyNow: () => number = steadyClock({ wall: () => Date.now(), steady: () => performance.now() })
