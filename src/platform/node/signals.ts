/** Signals of the process. */

/** Explains a system error as one line with a next step; null for other errors. */
export function explainSystemError(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null
  const { port, address, path } = error as { port?: number; address?: string; path?: string }
  const place = address === undefined ? `port ${port}` : `${address}:${port}`
  switch (error.code) {
    case 'EADDRINUSE':
      return (
        `Something else listens on ${place} already. Stop it, or choose another port: with --listen for the ` +
        'gateway (127.0.0.1:0 takes a free one), with ttft.listen for reports.'
      )
    case 'EACCES':
      if (port === undefined) return `May not read or write ${path ?? 'a file'}. Check its permissions.`
      return `Not allowed to listen on ${place}: ports below 1024 need privileges. Choose a higher one with --listen.`
    case 'EADDRNOTAVAIL':
      return `This machine has no address ${address}. Listen on 127.0.0.1, or on 0.0.0.0 for all of its addresses.`
    case 'ENOTFOUND':
      return (
        `The name ${(error as { hostname?: string }).hostname ?? address} cannot be resolved. Listen on an ` +
        'address instead.'
      )
    case 'ENOENT':
      return path === undefined ? null : `There is no file ${path}.`
    case 'EISDIR':
      return `${path ?? 'That'} is a folder, not a file.`
    default:
      return null
  }
}

export interface Stop {
  /** Aborted at the first SIGINT, SIGTERM or SIGHUP. */
  readonly stop: AbortSignal
  /** Aborted at the second; a third ends the process at once. */
  readonly stopNow: AbortSignal
}

/** Signals within this time count as one, because a terminal and npm may both deliver it. */
const sameSignalMs = 300
const parentCheckMs = 500

export function watchSignals(): Stop {
  const stop = new AbortController()
  const stopNow = new AbortController()
  let last = Number.NEGATIVE_INFINITY
  const onSignal = (signal: string) => {
    const now = performance.now()
    if (now - last < sameSignalMs) return
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
    ...(reason.message === 'SIGHUP' ? { next: 'SIGUSR2 takes a new configuration and goes on.' } : {}),
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
  }, parentCheckMs)
  timer.unref()
}
