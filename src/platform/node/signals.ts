/** Signals of the process. */

export function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

export interface StopSignals {
  /** Aborted at the first SIGINT, SIGTERM or SIGHUP. */
  readonly stop: AbortSignal
  /** Aborted at the second; a third ends the process at once. */
  readonly stopNow: AbortSignal
}

/** Signals within this time count as one, because a terminal and npm may both deliver it. */
const SAME_SIGNAL_MS = 300

const PARENT_CHECK_MS = 500

export function watchSignals(): StopSignals {
  const stop = new AbortController()
  const stopNow = new AbortController()
  let last = Number.NEGATIVE_INFINITY
  const onSignal = (signal: string) => {
    const now = performance.now()
    if (now - last < SAME_SIGNAL_MS) return
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

/** Describes the signal that stopped the process, for the log. */
export function endedBy({ reason }: AbortSignal): { readonly signal?: string; readonly next?: string } {
  if (!(reason instanceof DOMException) || !reason.message.startsWith('SIG')) return {}
  return {
    signal: reason.message,
    ...(reason.message === 'SIGHUP' ? { next: 'Use SIGUSR2 to reload the configuration without a restart.' } : {}),
  }
}

/** Windows has no SIGUSR2. */
export function onReload(reload: () => void): void {
  if (process.platform !== 'win32') process.on('SIGUSR2', reload)
}

/**
 * Node opens the inspector at SIGUSR1, in a process that holds all keys. A listener prevents that. Windows has no
 * SIGUSR1.
 */
export function disableInspectorSignal(): void {
  if (process.platform !== 'win32') process.on('SIGUSR1', () => {})
}

/**
 * `npm start` runs the gateway in a shell that dies of SIGTERM without forwarding it. If the parent is gone, the
 * gateway stops.
 */
function stopWithParent(stop: AbortController): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    stop.abort()
  }, PARENT_CHECK_MS)
  timer.unref()
}
