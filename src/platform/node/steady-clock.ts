/** A monotonic clock that also follows the system time. */

/** Interval at which the system clock is read, which doubles the cost of a reading. */
const CHECK_MS = 1_000
/**
 * How much slower the clock runs until a system clock that was set back has caught up, so that durations are nearly
 * correct meanwhile.
 */
const SLOWER = 0.01

/** Both in milliseconds. */
interface Clocks {
  /** Milliseconds since the epoch; may be set forward and back. */
  readonly wall: () => number
  /** Monotonic milliseconds. */
  readonly steady: () => number
}

/**
 * Returns milliseconds since the epoch that never decrease. Otherwise circuits, probes and cached answers would freeze
 * for as long as the system clock was set back. A forward step is followed within a second.
 * @testing
 */
export function steadyClock({ wall, steady }: Clocks): () => number {
  let base = wall()
  let checkedAt = steady()
  let rate = 1
  return () => {
    const at = steady()
    const elapsedMs = at - checkedAt
    if (elapsedMs < CHECK_MS) return Math.floor(base + elapsedMs * rate)
    const last = base + elapsedMs * rate
    const real = wall()
    base = Math.max(last, real)
    rate = 1 - Math.min(SLOWER, (base - real) / CHECK_MS)
    checkedAt = at
    return Math.floor(base)
  }
}

/** The clock of this host. */
export const steadyNow: () => number = steadyClock({ wall: () => Date.now(), steady: () => performance.now() })
