import { drainFailure, type Failure, type FailureReason } from '../failure.ts'
import { abortReason } from '../origin/exchange.ts'
import type { Ports } from '../ports.ts'
import { logFailure, logRequest, roundMs } from './access-log.ts'
import { asFailure, problemResponse } from './error-response.ts'
import type { RequestContext } from './request-context.ts'

/**
 * Runs a handler, converts what it throws to a response, and writes the log line. Calls `refused` for refusals that
 * are counted nowhere else.
 */
export async function withErrorBoundary(
  incoming: RequestContext,
  ports: Ports,
  handle: (incoming: RequestContext) => Response | Promise<Response>,
  refused: (reason: FailureReason) => void,
): Promise<Response> {
  try {
    const response = await handle(incoming)
    if (incoming.logOnStreamEnd) incoming.logFields['head_ms'] ??= roundMs(incoming.elapsedMs())
    else {
      incoming.memory?.release()
      logRequest(incoming, ports, response.status)
      // The gateway's own response; an engine's has its stages already.
      if (response.headers.has('x-request-id') && !response.headers.has('server-timing'))
        addOwnHeaders(response, incoming)
    }
    return response
  } catch (thrown) {
    incoming.memory?.release()
    const failure = asShutdownFailure(asFailure(thrown), incoming, ports)
    if (!incoming.logOnStreamEnd) refused(failure.reason)
    logFailure(incoming, ports, failure)
    const response = problemResponse(failure, incoming.shape, incoming.requestId)
    addOwnHeaders(response, incoming)
    return response
  }
}

/** A body that ends early because the gateway shuts down is no fault of the client. */
const asShutdownFailure = (failure: Failure, { scope }: RequestContext, ports: Ports): Failure =>
  failure.reason === 'client_gone' && abortReason(scope) === 'abandoned' ? drainFailure(ports.random()) : failure

/** Adds the headers of responses that no engine gave. */
function addOwnHeaders({ headers }: Response, incoming: RequestContext): void {
  headers.set('server-timing', edgeTiming(incoming))
  const { cors } = incoming
  if (cors !== null) for (let i = 0; i < cors.length; i += 2) headers.append(cors[i]!, cors[i + 1]!)
}

/** `Server-Timing` of a response that no engine gave. */
const edgeTiming = (incoming: RequestContext): string => `edge;dur=${roundMs(incoming.elapsedMs())}`
