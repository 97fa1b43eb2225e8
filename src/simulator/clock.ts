/** Time as the simulated engines see it. Passed in, so that tests can turn it by hand. */
export interface Clock {
  /** Milliseconds since the epoch, with fractions. */
  now(): number
  /** Runs once after `ms`; the answer cancels. */
  after(ms: number, run: () => void): () => void
}

/** The real one, on every runtime. */
export const realClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  after(ms, run) {
    // A timer takes a millisecond at least, which an engine that takes no time would be measured by.
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
