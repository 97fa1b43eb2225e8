import type { Admission } from '../../contract/admission.ts'
import { bookingKey } from '../bookings.ts'
import type { PoolEngines } from '../pool-engines/pool-engines.ts'

/**
 * Decides whether a request that waits at an engine may be sent to a second one. A wedged or unreachable engine is the
 * grant. A request that is lost at an engine that is not known to be wedged gets a second attempt within the retry
 * budget, like a hedge.
 * @returns the admission of the second attempt; null: none is needed
 */
export function grantedRescue(admission: Admission, engines: PoolEngines, now: number): Admission | null {
  if (admission.rescueFrom === undefined || engines.isStuck(admission.rescueFrom, now)) return admission
  const { rescueFrom, rescueAttempt = admission.attempt - 1, ...hedge } = admission
  const waiting = bookingKey({ ...admission, attempt: rescueAttempt })
  return engines.isLost(rescueFrom, waiting, now) ? hedge : null
}
