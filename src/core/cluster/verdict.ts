import type { Booking } from './bookings.ts'
import type { Verdict } from './circuit.ts'
import type { Outcome } from './contract.ts'

/**
 * What the end of a booking says about one of its engines. A client that leaves and an engine that refuses (4xx) or
 * is busy are no failures; an answer of any kind shows that the engine lives.
 */
export function verdictOn(engine: string, booking: Booking, outcome: Outcome): Verdict {
  if (outcome.failure !== null && outcome.failure !== 'busy') {
    const failed = booking.legs.length === 1 ? engine : outcome.failedEngine
    if (failed !== engine) return 'unclear'
    return outcome.failure === 'first_byte_timeout' || outcome.failure === 'connect_timeout' ? 'hung' : 'failure'
  }
  if (outcome.result === 'complete' || outcome.result === 'engine_refused' || outcome.failure === 'busy') return 'success'
  return 'unclear'
}
