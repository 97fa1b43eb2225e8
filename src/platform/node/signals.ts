/** How this process is told to end. */

export interface Stop {
  /** Aborted at the first SIGINT, SIGTERM or SIGHUP. */
  readonly stop: AbortSignal
  /** Aborted at the second; a third ends the process at once. */
  readonly stopNow: AbortSignal
}

/** Signals closer together than this are one wish: a terminal and npm may both deliver it. */
const sameWishMs = 300
const parentCheckMs = 500

export function watchSignals(): Stop {
  const stop = new AbortController()
  const stopNow = new AbortController()
  let last = Number.NEGATIVE_INFINITY
  const onSignal = (signal: string) => {
    const now = performance.now()
    if (now - last < sameWishMs) return
    last = now
    if (stopNow.signal.aborted) process.exit(130)
    if (stop.signal.aborted) stopNow.abort()
    else stop.abort(new DOMException(signal, 'AbortError'))
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  process.on('SIGHUP', onSignal)
  if (process.env['npm_lifecycle_event'] !== undefined) stopWithParent(stop)
  return { stop: stop.signal, stopNow: stopNow.signal }
}

/** For the log: the signal that ended it, and what its sender may have meant. */
export function endedBy({ reason }: AbortSignal): { readonly signal?: string; readonly next?: string } {
  if (!(reason instanceof DOMException) || !reason.message.startsWith('SIG')) return {}
  return { signal: reason.message, ...(reason.message === 'SIGHUP' ? { next: 'SIGUSR2 takes a new configuration and goes on.' } : {}) }
}

/** Windows has no such signal. */
export function onReload(reload: () => void): void {
  if (process.platform !== 'win32') process.on('SIGUSR2', reload)
}

/** `npm start` runs us in a shell that dies of SIGTERM without passing it on: without a parent, nobody wants us any more. */
function stopWithParent(stop: AbortController): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    stop.abort()
  }, parentCheckMs)
  timer.unref()
}
