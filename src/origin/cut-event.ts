/** The one SSE event that tells a client its stream broke, in the dialect of the endpoint. */
import type { AttemptFailure } from '../core/cluster/contract.ts'
import { failures } from '../failure.ts'

const CODE = failures.engine_cut.code

/** `path` is the engine's path. The bytes begin and end an event. */
export function cutEvent(path: string, failure: AttemptFailure): Uint8Array {
  const message = messageOf(failure)
  return new TextEncoder().encode(eventText(path, message))
}

function eventText(path: string, message: string): string {
  if (path.startsWith('/v1/messages')) {
    return `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'api_error', message } })}\n\n`
  }
  if (path.startsWith('/v1/responses')) {
    return `event: error\ndata: ${JSON.stringify({ type: 'error', code: CODE, message, param: null })}\n\n`
  }
  return `data: ${JSON.stringify({ error: { message, type: failures.engine_cut.type, param: null, code: CODE } })}\n\n`
}

function messageOf(failure: AttemptFailure): string {
  if (failure === 'first_byte_timeout') return 'The engine did not begin its answer in time. Nothing was generated; try again.'
  if (failure === 'idle_timeout') return 'The engine stopped sending in the middle of its answer, which is incomplete.'
  return 'The engine broke off in the middle of its answer, which is incomplete.'
}
