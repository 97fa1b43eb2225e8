import { Failure, failures, type FailureReason } from '../failure.ts'

/** Error format of the client's API. */
export type ErrorShape = 'openai' | 'anthropic'

/** Anthropic's `error.type` by status; see https://docs.anthropic.com/en/api/errors. */
const anthropicTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  405: 'invalid_request_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
  503: 'overloaded_error',
}

/** Body of an error response. It has only the failure's own text. */
function problemBody(failure: Failure, shape: ErrorShape, requestId: string): unknown {
  const { status, type, code } = failure.shape
  if (shape === 'anthropic') {
    const kind = anthropicTypes[status] ?? 'api_error'
    return { type: 'error', error: { type: kind, message: failure.message }, request_id: requestId }
  }
  return { error: { message: failure.message, type, param: failure.param, code } }
}

/**
 * Response of a failure. SDKs obey `x-should-retry`, and wait for `retry-after-ms`, else for `retry-after`
 * (openai-node, `core.ts`), so a retry is requested only where it can help.
 */
export function problemResponse(failure: Failure, shape: ErrorShape, requestId: string): Response {
  const headers = new Headers({ 'content-type': 'application/json', 'x-request-id': requestId })
  for (const [name, value] of Object.entries(failure.headers)) headers.set(name, value)
  const { status, retry } = failure.shape
  if (!retry) headers.set('x-should-retry', 'false')
  else if (failure.retryAfterMs !== null) {
    const ms = Math.max(0, Math.round(failure.retryAfterMs))
    headers.set('retry-after', String(Math.max(1, Math.ceil(ms / 1000))))
    headers.set('retry-after-ms', String(ms))
  }
  return new Response(JSON.stringify(problemBody(failure, shape, requestId)), { status, headers })
}

/** Converts anything thrown to a failure. Unexpected errors show no details to the client. */
export function asFailure(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown
  return new Failure(
    'internal',
    'The gateway failed to handle this request. Its log has the cause under this request id.',
    {
      cause: thrown,
    },
  )
}

/** Whether an operator should see the failure, because the client is not its cause. */
export const isGatewayFault = (reason: FailureReason): boolean => failures[reason].status >= 500
