/** The SSE event that reports a truncated stream to a client, in the format of the endpoint. */
import type { NotContinued } from '../../core/continuation/continuable.ts'
import type { AttemptFailure } from '../../core/contract/outcome.ts'
import { failures } from '../../failure.ts'

const encoder = new TextEncoder()

const CODE = failures.engine_truncated.code

/**
 * @param path the engine's path
 * @param notContinued why no other engine continued the stream; null: that was not requested
 */
export function errorEvent(path: string, failure: AttemptFailure, notContinued: NotContinued | null): Uint8Array {
  const why = notContinued === null ? '' : ` No other engine continued it (${notContinued}).`
  return encoder.encode(eventText(path, messageOf(failure) + why))
}

function eventText(path: string, message: string): string {
  if (path.startsWith('/v1/messages')) {
    return `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type: 'api_error', message } })}\n\n`
  }
  if (path.startsWith('/v1/responses')) {
    return `event: error\ndata: ${JSON.stringify({ type: 'error', code: CODE, message, param: null })}\n\n`
  }
  const { type } = failures.engine_truncated
  return `data: ${JSON.stringify({ error: { message, type, param: null, code: CODE } })}\n\n`
}

function messageOf(failure: AttemptFailure): string {
  if (failure === 'first_byte_timeout')
    return 'The engine did not begin its answer in time. Nothing was generated; try again.'
  if (failure === 'idle_timeout') return 'The engine stopped sending in the middle of its answer, which is incomplete.'
  return 'The engine broke off in the middle of its answer, which is incomplete.'
}
