/** Longest time of a timer, ms. */
const MAX_MS = 2 ** 31 - 1

/** Waits; ends early when the signal is aborted. Does not keep the process running. */
export function abortableWait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, Math.min(ms, MAX_MS))
    timer.unref()
    signal.addEventListener('abort', done)
  })
}
