import type { Outcome } from '../../contract/outcome.ts'
import type { Booking } from '../bookings.ts'
import type { CircuitSignal } from './circuit.ts'

/**
 * Classifies the end of a booking for the circuit of one of its engines. Client disconnects, 4xx and busy responses
 * are no failures; any response proves that the engine runs. Of several engines only the one that failed is judged,
 * unless all succeeded.
 * @param isMoving the engine sent output of other requests since this request was sent, so it does not hang
 */
export function circuitSignal(
  engine: string,
  { placement, firstTokenSeen }: Pick<Booking, 'placement' | 'firstTokenSeen'>,
  { failure, failedEngine, result, endUnseen }: Outcome,
  isMoving = false,
): CircuitSignal {
  const spoke = placement.kind === 'whole' || failedEngine === engine
  // Otherwise streams that are not parsed would hide the truncated streams of those that are.
  if (result === 'complete' && endUnseen === true && (placement.kind === 'whole' || placement.decode === engine))
    return 'begun'
  if (failure === null) return result === 'complete' || (result === 'engine_refused' && spoke) ? 'success' : 'unclear'
  if (!spoke) return 'unclear'
  if (failure === 'busy') return 'success'
  // The client chooses the length of the response, so its timeout is no failure of the engine.
  if (failure === 'answer_timeout' || failure === 'paused' || failure === 'lacks_adapter') return 'unclear'
  if (failure === 'first_byte_timeout') return isMoving ? 'unclear' : 'hung'
  if (failure === 'connect_timeout') return isMoving ? 'failure' : 'hung'
  return firstTokenSeen ? 'truncated' : 'failure'
}

/**
 * Classifies the end of a booking on another gateway. Single failures belong to the engines behind it; it fails if
 * nothing arrives, several times in a row.
 */
export function gatewaySignal(
  engine: string,
  booking: Pick<Booking, 'placement' | 'firstTokenSeen'>,
  outcome: Outcome,
  isMoving = false,
): CircuitSignal {
  const signal = circuitSignal(engine, booking, outcome, isMoving)
  if (signal === 'truncated' || signal === 'begun' || (signal === 'failure' && outcome.failure === 'status_5xx'))
    return 'success'
  return signal === 'hung' ? 'failure' : signal
}
