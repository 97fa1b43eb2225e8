/** The end of a response that its engine did not complete. */
import type { RequestScope } from '../../ports/request-scope.ts'
import { withTimeout } from '../../timeout.ts'
import { defaultTimers } from '../../timers.ts'

/**
 * Time between the error event and the end of the connection, ms: adapters write to the socket a turn of the event loop
 * later, and closing it before would drop the event.
 */
const ABORT_DELAY_MS = 20

/** Waits until the error event is on its way, so that the connection can be broken. */
export const errorEventSent = ({ timers = defaultTimers }: Pick<RequestScope, 'timers'>): Promise<void> =>
  new Promise((resolve) => void timers.set(ABORT_DELAY_MS, resolve))

/**
 * Limit for a write behind the end of the engine, ms: a client that does not read must not hold the booking. It is not
 * `writeMs`, in which a client may read nothing while its answer goes on.
 */
const LAST_WRITE_MS = 2_000

/** Whether the client has taken a write behind the end of the engine. */
export const lastWriteTaken = async (
  { timers = defaultTimers }: Pick<RequestScope, 'timers'>,
  write: Promise<void>,
): Promise<boolean> => (await withTimeout(LAST_WRITE_MS, write, { timers })) !== null

/** Error of a stream that ends early. Adapters may print it or send it: it has no address and no stack. */
export function truncationError(): Error {
  const error = new Error('the response was truncated')
  error.stack = String(error)
  return error
}
