import type { Booking } from './bookings.ts'
import type { Verdict } from './circuit.ts'
import type { Outcome } from './contract.ts'

/**
 * What the end of a booking says about one of its engines. A client that leaves and an engine that refuses (4xx) or
 * is busy are no failures; an answer of any kind shows that the engine lives. Of several engines only the one that had the
 * last word is judged, unless all went well: the others may never have been asked.
 */
export function verdictOn(engine: string, { placement, firstTokenSeen }: Pick<Booking, 'placement' | 'firstTokenSeen'>, { failure, failedEngine, result, endUnseen }: Outcome): Verdict {
  const spoke = placement.kind === 'whole' || failedEngine === engine
  // Else the streams nobody read would hide the cuts of those that are read.
  if (result === 'complete' && endUnseen === true && (placement.kind === 'whole' || placement.decode === engine)) return 'begun'
  if (failure === null) return result === 'complete' || (result === 'engine_refused' && spoke) ? 'success' : 'unclear'
  if (!spoke) return 'unclear'
  if (failure === 'busy') return 'success'
  if (failure === 'first_byte_timeout' || failure === 'connect_timeout') return 'hung'
  return firstTokenSeen ? 'cut' : 'failure'
}

/**
 * The same of a gateway with engines of its own: what becomes of a request there is theirs. It is ill when nothing comes of
 * it at all, several times in a row; one request that waits too long may wait for one of many engines.
 */
export function verdictOnGateway(engine: string, booking: Pick<Booking, 'placement' | 'firstTokenSeen'>, outcome: Outcome): Verdict {
  const verdict = verdictOn(engine, booking, outcome)
  if (verdict === 'cut' || verdict === 'begun' || (verdict === 'failure' && outcome.failure === 'status_5xx')) return 'success'
  return verdict === 'hung' ? 'failure' : verdict
}
