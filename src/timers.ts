import type { Ports } from './ports.ts'
import type { RequestScope } from './ports/request-scope.ts'
import type { Timers } from './ports/timers.ts'

/** Timers of the runtime, for platforms without better ones. */
export const defaultTimers: Timers = {
  set(delayMs, callback) {
    const timer = setTimeout(callback, delayMs)
    return { cancel: () => clearTimeout(timer) }
  },
}

/** Timers of a request: of its scope, or of the ports. */
export const timersOf = (scope: Pick<RequestScope, 'timers'>, ports: Pick<Ports, 'timers'>): Timers =>
  scope.timers ?? ports.timers
