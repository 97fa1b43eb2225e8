/** The SSE event that reports a truncated stream to a client, in the format of the endpoint. */
import type { NotContinued } from '../../core/continuation/continuable.ts'
import type { AttemptFailure } from '../../core/contract/outcome.ts'
import { failures } from '../../failure.ts'
import type { Protocol } from '../../protocols/protocol.ts'

const encoder = new TextEncoder()

interface EventDetails {
  /** Why no other engine continued the stream; null: that was not requested. */
  readonly notContinued: NotContinued | null
  /** Number of the event; null: the protocol has none. */
  readonly sequence: number | null
}

export function errorEvent({ errors }: Protocol, failure: AttemptFailure, details: EventDetails): Uint8Array {
  const { notContinued, sequence } = details
  const why = notContinued === null ? '' : ` No other engine continued it (${notContinued}).`
  const { status, type, code } = failures.engine_truncated
  return encoder.encode(errors.event({ status, type, code, param: null, message: messageOf(failure) + why }, sequence))
}

function messageOf(failure: AttemptFailure): string {
  if (failure === 'first_byte_timeout')
    return 'The engine did not start its answer in time. Nothing was generated; try again.'
  if (failure === 'paused')
    return 'The model was paused, perhaps for new weights, in the middle of its answer, which is incomplete.'
  if (failure === 'idle_timeout') return 'The engine stopped sending in the middle of its answer, which is incomplete.'
  return 'The engine failed in the middle of its answer, which is incomplete.'
}
