import type { Authenticator } from '../auth/authenticator.ts'
import type { Caller } from '../auth/caller.ts'
import type { Middleware, RoutedRequest } from './middleware.ts'

/**
 * Finds the client of a request by its key or token.
 * @param acceptsApiKeyHeader also accept `x-api-key`, as Anthropic's clients send it
 */
export const authenticate = (
  { caller, openCaller }: Pick<Authenticator, 'caller' | 'openCaller'>,
  acceptsApiKeyHeader: boolean,
): Middleware => {
  if (openCaller !== null) return (request) => setCaller(request, openCaller(request.incoming.request.headers))
  return async (request) => setCaller(request, await caller(request.incoming.request.headers, acceptsApiKeyHeader))
}

function setCaller(request: RoutedRequest, caller: Caller): void {
  request.incoming.logFields.tenant = caller.tenant
  request.caller = caller
}
