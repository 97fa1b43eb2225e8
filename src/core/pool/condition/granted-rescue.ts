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
  const { id, second } = admission
  if (second?.kind !== 'rescue' || engines.isStuck(second.from, now)) return admission
  const waiting = bookingKey({ id, attempt: second.attempt })
  return engines.isLost(second.from, waiting, now) ? { ...admission, second: { kind: 'hedge' } } : null
}
