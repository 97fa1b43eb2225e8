/** Clock of the simulated engines. Passed in, so that tests can advance it. */
export interface Clock {
  /** Milliseconds since the epoch, with fractions. */
  now(): number
  /** Runs a callback once after `ms`. The returned function cancels it. */
  after(ms: number, run: () => void): () => void
}

/** The system clock, on every runtime. */
export const realClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  after(ms, run) {
    // A timer takes at least 1 ms, which would be measured as engine time.
    if (ms <= 0) return soon(run)
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

function soon(run: () => void): () => void {
  let wanted = true
  queueMicrotask(() => {
    if (wanted) run()
  })
  return () => {
    wanted = false
  }
}
