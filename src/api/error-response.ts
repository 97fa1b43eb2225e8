import { type Failure, failures, type FailureReason } from '../failure.ts'
import { gatewayError } from '../origin/gateway-error.ts'
import type { ErrorShape } from '../protocols/error-shape.ts'

/**
 * Response of a failure. SDKs obey `x-should-retry`, and wait for `retry-after-ms`, else for `retry-after`
 * (openai-node, `core.ts`), so a retry is requested only where it can help.
 */
export function problemResponse(failure: Failure, shape: ErrorShape, requestId: string): Response {
  const headers = new Headers({ 'content-type': 'application/json' })
  for (const name of shape.requestIdHeaders) headers.set(name, requestId)
  for (const [name, value] of Object.entries(failure.headers)) headers.set(name, value)
  const { status, retry } = failure.shape
  if (!retry) headers.set('x-should-retry', 'false')
  else if (failure.retryAfterMs !== null) {
    const ms = Math.max(0, Math.round(failure.retryAfterMs))
    headers.set('retry-after', String(Math.max(1, Math.ceil(ms / 1000))))
    headers.set('retry-after-ms', String(ms))
  }
  return new Response(JSON.stringify(shape.body(gatewayError(failure), requestId)), { status, headers })
}

/** Whether an operator should see the failure, because the client is not its cause. */
export const isGatewayFault = (reason: FailureReason): boolean => failures[reason].status >= 500
