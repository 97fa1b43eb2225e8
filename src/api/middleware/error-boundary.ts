import type { ErrorHandler } from 'hono'
import { drainFailure, type Failure, type FailureReason } from '../../failure.ts'
import { abortReason } from '../../origin/abort-reason.ts'
import type { Ports } from '../../ports.ts'
import { asFailure } from '../../origin/gateway-error.ts'
import { problemResponse } from '../error-response.ts'
import { addOwnHeaders } from '../own-headers.ts'
import type { RequestContext } from '../request-context.ts'
import type { RequestEnv } from './middleware.ts'

export interface ErrorBoundaryParts {
  readonly ports: Pick<Ports, 'random'>
  /** Counts refusals that are counted nowhere else. */
  readonly telemetry: { readonly countRefusal: (reason: FailureReason) => void }
}

/** Converts what a handler or middleware throws to the response of a failure. For `app.onError`. */
export const errorBoundary =
  ({ ports, telemetry }: ErrorBoundaryParts): ErrorHandler<RequestEnv> =>
  (thrown, c) => {
    const incoming = c.get('incoming')
    incoming.memory?.release()
    const failure = asShutdownFailure(asFailure(thrown), incoming, ports)
    if (!incoming.logOnStreamEnd) telemetry.countRefusal(failure.reason)
    c.set('failure', failure)
    const response = problemResponse(failure, incoming.shape, incoming.requestId)
    addOwnHeaders(response, incoming)
    return response
  }

/** A body that ends early because the gateway shuts down is no fault of the client. */
const asShutdownFailure = (
  failure: Failure,
  { scope }: RequestContext,
  { random }: ErrorBoundaryParts['ports'],
): Failure =>
  failure.reason === 'client_gone' && abortReason(scope) === 'abandoned' ? drainFailure(random()) : failure
