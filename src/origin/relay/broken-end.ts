/** The end of a response that its engine did not complete. */
import type { RequestScope } from '../../ports/request-scope.ts'
import { defaultTimers } from '../../timers.ts'

/**
 * Time between the error event and the end of the connection, ms: adapters write to the socket a turn of the event loop
 * later, and closing it before would drop the event.
 */
const ABORT_DELAY_MS = 20

/** Waits until the error event is on its way, so that the connection can be broken. */
export const errorEventSent = ({ timers = defaultTimers }: Pick<RequestScope, 'timers'>): Promise<void> =>
  new Promise((resolve) => void timers.set(ABORT_DELAY_MS, resolve))

/** Error of a stream that ends early. Adapters may print it or send it: it has no address and no stack. */
export function truncationError(): Error {
  const error = new Error('the response was truncated')
  error.stack = String(error)
  return error
}
