import { drainFailure, type Failure, type FailureReason } from '../failure.ts'
import { abortReason } from '../origin/abort-reason.ts'
import type { Ports } from '../ports.ts'
import { asFailure } from '../origin/gateway-error.ts'
import { logFailure } from './access-log.ts'
import { problemResponse } from './error-response.ts'
import type { RoutedRequest } from './middleware/middleware.ts'
import { addOwnHeaders } from './own-headers.ts'
import type { RequestContext } from './request-context.ts'

export interface FailureParts {
  readonly ports: Pick<Ports, 'random' | 'now' | 'log'>
  /** Counts refusals that are counted nowhere else. */
  readonly telemetry: { readonly countRefusal: (reason: FailureReason) => void }
}

/** Converts what a handler or middleware throws to the response of a failure, and writes the log line. */
export function failedRequest({ ports, telemetry }: FailureParts, request: RoutedRequest, thrown: unknown): Response {
  const { incoming } = request
  incoming.memory?.release()
  const failure = asShutdownFailure(asFailure(thrown), incoming, ports)
  if (!incoming.logOnStreamEnd) telemetry.countRefusal(failure.reason)
  const response = problemResponse(failure, incoming.shape, incoming.requestId)
  addOwnHeaders(response, incoming)
  request.onFailure?.(failure)
  logFailure(incoming, ports, failure)
  return response
}

/** A body that ends early because the gateway shuts down is no fault of the client. */
const asShutdownFailure = (failure: Failure, { scope }: RequestContext, { random }: FailureParts['ports']): Failure =>
  failure.reason === 'client_gone' && abortReason(scope) === 'abandoned' ? drainFailure(random()) : failure
